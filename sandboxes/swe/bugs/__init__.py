"""Makes tasks from real packages: break one place, keep bugs that a few tests catch, report the failure.

mutations.py   the bugs, found on the syntax tree
package.py     a package's source distribution, and its passing tests
recipe.py      the packages, the number of bugs in each, and the releases to compare
issue.py       a user's report of a bug, without the fix
difficulty.py  how hard a bug is to find
trial.py       one bug, validated, as a task
releases.py    two versions of a package as a task
build.py       from a recipe to a task set

python -m agentgym.sandboxes.swe.bugs recipes/tasks/swe-bugs.toml --out bugs.jsonl
"""
