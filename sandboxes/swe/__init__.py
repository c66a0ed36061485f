"""Real repositories: find a bug and fix it; hidden tests judge the patch in another sandbox.

repository.py     the files of a repository, and how they get into a sandbox once for all episodes
pip.py            pip commands, with current or old build tools
wheels.py         the packages of a task's environment, cached as wheels
projects.py       a repository's own part of its environment: requirements, metadata, compiled modules
patch.py          the changes as a unified diff, made from the files alone
environment.py    agentgym/swe-v1, with a shell, and agentgym/swe-edit-v1, without
given.py          agentgym/swe-given-v1, where the file to fix is shown and only edits are possible
judge.py          the reward `repository_tests`
controls.py       tests that must fail, which distinguish a fix from a forgery
control_values.py the other values, errors and parameter rows in tests that must fail
pytest_controls.py  writes these tests into the test files for pytest
runners/          pytest, unittest, Go, Node, Cargo, JUnit XML, CTest: commands, reports, failing tests
commands.py       runs tests by a runner's command, for the agent and the judge
guest_repository.py  runs in the agent's sandbox: search, tests
guest_judge.py    runs in the judge's sandbox
guest_calls.py    runs in the sandbox in which bugs/ makes tasks from packages
"""

from .environment import Swe, SweEdit
from .given import SweGiven
from .judge import RepositoryTests

__all__ = ["RepositoryTests", "Swe", "SweEdit", "SweGiven"]
