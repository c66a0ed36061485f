"""A task's own packages, commands and set-up: the agent's shell and the judge see these, and nothing of the host's."""

from __future__ import annotations

import pytest
from wheel_files import write_installed, write_wheel

import agentgym
from agentgym import Call, Task
from agentgym.errors import TaskError
from agentgym.sandboxes.swe import wheels
from agentgym.sandboxes.swe.judge import RepositoryTests
from agentgym.sandboxes.swe.patch import make_patch

SOURCE = "import importlib.metadata\n\nimport three\n\n\ndef triple(x):\n    return x + three.THREE\n"
FIX = make_patch({"thing.py": SOURCE.encode()}, {"thing.py": SOURCE.replace("x +", "x *").encode()})
HIDDEN = """import importlib.metadata
import subprocess
import sys

import thing


def test_triple(three):
    assert thing.triple(5) == 3 * 5 == three * 5


def test_environment():
    assert importlib.metadata.version("three") == "3.0"
    assert open("built.txt").read() == "built with pytest of the task\\n"


def test_pytest_is_found_by_what_the_tests_start():
    command = [sys.executable, "-m", "pytest", "--version"]
    assert subprocess.run(command, capture_output=True).returncode == 0
"""


@pytest.fixture
def requirements(tmp_path, monkeypatch) -> list[str]:
    """A cache with pytest, what it needs, and a package that no other has, which is a plugin of pytest too."""
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path))
    wheels.environment.cache_clear()
    files = {"three.py": "import pytest\n\nTHREE = 3\n\n\n@pytest.fixture\ndef three():\n    return THREE\n"}
    entry_points = "[pytest11]\nthree = three\n\n[console_scripts]\nthree-say = three:__name__.upper\n"
    write_wheel(wheels.cache(), "three", "3.0", files, entry_points)
    installed = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")
    return ["three==3.0", *(write_installed(wheels.cache(), name) for name in installed)]


def task(**parameters: object) -> Task:
    return Task(
        "triple",
        "agentgym/swe-v1",
        "triple(5) is 8.",
        parameters={"files": {"thing.py": SOURCE}, **parameters},
        truth={
            "fail_to_pass": ["test_thing.py::test_triple"],
            "pass_to_pass": [
                "test_thing.py::test_environment",
                "test_thing.py::test_pytest_is_found_by_what_the_tests_start",
            ],
            "files": {"test_thing.py": HIDDEN},
            "tests": ["test_*.py"],
            "gold": FIX,
        },
    )


BUILD = "pytest --version && echo built with pytest of the task > built.txt"


@pytest.mark.needs_namespaces
async def test_agent_and_judge_have_the_packages_of_the_task_and_none_of_the_hosts(requirements):
    own = task(requirements=requirements, setup=[BUILD], python=wheels.HERE)
    environment = agentgym.make("agentgym/swe-v1")
    await environment.reset(own.public(), seed=0)
    try:
        say = "python3 -c 'import pytest, three; print(pytest.__file__, three.__file__)'; ls /packages; git status -s"
        result = await environment.call(Call("shell", {"command": say}))
        assert result.content == " ".join(f"/work/packages/env/site/{n}.py" for n in ("pytest/__init__", "three"))
        assert "THREE" in (await environment.call(Call("shell", {"command": "three-say; cat built.txt"}))).content
        assert "[tool_error" not in (await environment.call(Call("test", {}))).content
        for command in ("pytest -q --collect-only", "python3 -m pytest -q --collect-only", "py.test --version"):
            assert (await environment.call(Call("shell", {"command": command}))).ok
        await environment.call(Call("patch", {"diff": FIX}))
        handed_in = (await environment.call(Call("submit"))).content
        assert "pytest_cache" not in handed_in
    finally:
        await environment.close()
    assert (await RepositoryTests().score(own, FIX))["success"] == 1
    assert (await RepositoryTests().score(own, handed_in.partition("\n")[2]))["success"] == 1


@pytest.mark.needs_namespaces
@pytest.mark.thorough
async def test_without_an_environment_of_its_own_a_task_has_the_hosts_pytest_and_its_command():
    plain = Task("t", "agentgym/swe-v1", "-", parameters={"files": {"test_a.py": "def test_a():\n    pass\n"}})
    environment = agentgym.make("agentgym/swe-v1")
    await environment.reset(plain.public(), seed=0)
    try:
        for command in ("pytest -q", "python3 -m pytest -q", "cd / && pytest -q /work/repo/test_a.py"):
            assert "1 passed" in (await environment.call(Call("shell", {"command": command}))).content
    finally:
        await environment.close()


@pytest.mark.needs_namespaces
async def test_what_an_environment_lacks_is_named_at_the_start(requirements):
    environment = agentgym.make("agentgym/swe-v1")
    for parameters, says in (
        (
            {"requirements": ["four==4.0"]},
            r"triple: .*'four==4.0', but the cache has no wheel of it .*swe.wheels --python",
        ),
        ({"requirements": ["four>=4.0"]}, "Write it as name==version"),
        ({"requirements": ["three==3.0"]}, "The task's environment has no pytest"),
        ({"setup": ["echo compiling; cc --nonsense; exit 3"]}, r"`echo compiling.*` ended with 3.*printed: compiling"),
        ({"python": "2.7"}, r"needs Python 2.7, but this host has .* no image 'python2.7'"),
        ({"disk_mib": 0}, "at least 1"),
    ):
        with pytest.raises(TaskError, match=says):
            await environment.reset(task(**parameters).public(), seed=0)
    await environment.close()


@pytest.mark.needs_namespaces
async def test_compiled_files_are_there_and_do_not_outlive_what_they_were_compiled_of():
    """They are made once for all patches. A file of the same time and length, but other content, is compiled anew."""
    files = {"thing.py": "def double(x):\n    return x + 2\n"}
    hidden = (
        "import os\n\nimport thing\n\n\ndef test_double():\n    assert thing.double(5) == 10\n\n\n"
        "def test_compiled():\n    assert os.path.exists(thing.__cached__)\n"
    )
    fix = make_patch(
        {"thing.py": files["thing.py"].encode()}, {"thing.py": files["thing.py"].replace("+", "*").encode()}
    )
    tests = {"fail_to_pass": ["test_thing.py::test_double"], "pass_to_pass": ["test_thing.py::test_compiled"]}
    compiled = Task(
        "t", "agentgym/swe-v1", "-", parameters={"files": files}, truth={**tests, "files": {"test_thing.py": hidden}}
    )
    assert (await RepositoryTests().score(compiled, fix))["success"] == 1


def test_a_wheel_that_is_none_and_a_lock_that_cannot_be_had_are_named(requirements, monkeypatch):
    (wheels.cache() / "five-5.0-py3-none-any.whl").write_bytes(b"PK")
    with pytest.raises(TaskError, match=r"five-5.0.* is not a wheel that can be read"):
        wheels.environment(("five==5.0",))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert wheels.lock([]) == []
    assert wheels.lock(["three"]) == ["three==3.0"]
    with pytest.raises(TaskError, match="pip cannot provide six-and-seven for Python"):
        wheels.lock(["six-and-seven"])
