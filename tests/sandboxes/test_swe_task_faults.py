"""What `task_fault` of the repository judge says of tasks, without an episode."""

from __future__ import annotations

import pytest

from agentgym import JudgeError, Task
from agentgym.sandboxes.swe.judge import RepositoryTests
from agentgym.sandboxes.swe.patch import make_patch

pytestmark = pytest.mark.needs_namespaces

SOURCE = "def double(x):\n    return x + 2\n"
FIX = make_patch({"thing.py": SOURCE.encode()}, {"thing.py": SOURCE.replace("+", "*").encode()})
TEST = """from thing import double


def test_five():
    assert double(5) == 10


def test_two():
    assert double(2) == 4
"""


def task(*to_mend: str, test: str = TEST, **files: str) -> Task:
    return Task(
        "double",
        "agentgym/swe-edit-v1",
        "double(5) is 7.",
        parameters={"files": {"thing.py": SOURCE, "test_thing.py": test, **files}},
        truth={"fail_to_pass": [f"test_thing.py::{name}" for name in to_mend], "tests": ["test_*.py"], "gold": FIX},
    )


async def test_a_test_that_passes_as_it_is_spoils_no_task_in_which_another_fails():
    judge = RepositoryTests()
    assert await judge.task_fault(task("test_two", "test_five")) == ""
    assert "1 of 1 tests to be mended pass as it is" in await judge.task_fault(task("test_two"))


@pytest.mark.parametrize(
    ("conftest", "says"),
    [
        ("import nothing_of_this_name\n", "No module named 'nothing_of_this_name'"),
        ("def pytest_configure(config):\n    raise OSError('no settings')\n", "OSError: no settings"),
    ],
)
async def test_a_pytest_that_does_not_start_says_why(conftest, says):
    fault = await RepositoryTests().task_fault(task("test_five", **{"conftest.py": conftest}))
    assert fault.startswith("with the gold patch no test has an outcome: pytest stops before the last test: ")
    assert says in fault


async def test_tests_that_are_too_slow_by_the_clock_are_no_fault_of_the_task():
    """A validation asks again when it is repeated: the host may have been busy."""
    slow = task("test_five", test="import time\n\ntime.sleep(60)\n" + TEST)
    with pytest.raises(JudgeError, match="they take more than 1 s"):
        await RepositoryTests(timeout_s=1.0).task_fault(slow)
