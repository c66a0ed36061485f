"""Tasks out of real packages: break them in one place, keep what some tests catch and most do not, say what fails.

mutations.py   the bugs, on the syntax tree
package.py     a package's source distribution, and which of its tests pass
issue.py       what a user would report of a bug, without the fix
build.py       from a recipe of packages to a validated task set

python -m agentgym.sandboxes.swe.bugs recipes/tasks/swe-bugs.toml --out bugs.jsonl
"""
