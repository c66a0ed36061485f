"""Real repositories: find a bug and fix it; hidden tests judge the patch in another sandbox.

repository.py     the files of a repository, and how they get into a sandbox once for all episodes
pip.py            commands of pip, with build tools of today or of years ago
wheels.py         the packages of a task's environment, cached as wheels
projects.py       what a repository itself brings to its environment: requirements, metadata, compiled modules
patch.py          what was changed, as a unified diff made from the files alone
environment.py    agentgym/swe-v1, with a shell, and agentgym/swe-edit-v1, without
given.py          agentgym/swe-given-v1, where the file to be mended is shown and edits are all there is
judge.py          the reward `repository_tests`
controls.py       tests that must fail, which tell a fix from a forgery
control_values.py the values, errors and rows of parameters that they have instead
pytest_controls.py  puts them into the test files where pytest runs
runners/          pytest, unittest, Go, Node, Cargo, JUnit XML, CTest: commands, reports, tests that fail
commands.py       tests that a runner's command runs, for the agent and for the judge
guest_repository.py  what runs inside for the agent: search, tests
guest_judge.py    what runs inside for the judge
guest_calls.py    what runs inside where tasks are made of packages (bugs/)
"""

from .environment import Swe, SweEdit
from .given import SweGiven
from .judge import RepositoryTests

__all__ = ["RepositoryTests", "Swe", "SweEdit", "SweGiven"]
