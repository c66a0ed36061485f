"""`agentgym/code-v1`: what the tools say of good and bad code, and that the hidden tests are nowhere near."""

from __future__ import annotations

import pytest

import agentgym
from agentgym import Call, Task
from agentgym.errors import TaskError
from agentgym.messages import ResultStatus

pytestmark = pytest.mark.needs_namespaces

SQUARE = Task(
    "t",
    "agentgym/code-v1",
    "Write f that squares.",
    parameters={"tests": ["assert f(2) == 4", "assert f(3) == 9"]},
    truth={"tests": ["assert f(11) == 121"]},
)


@pytest.fixture
async def environment():
    environment = agentgym.make("agentgym/code-v1")
    await environment.reset(SQUARE.public(), seed=0)
    yield environment
    await environment.close()


async def use(environment, name, code):
    return await environment.call(Call(name, {"code": code}))


async def test_run_shows_what_the_code_prints(environment):
    assert (await use(environment, "run", "print(6 * 7)")).content == "42"
    assert (await use(environment, "run", "x = 1")).content == "[no output]"


async def test_run_shows_the_end_of_a_traceback(environment):
    result = await use(environment, "run", "print('before')\n1 / 0")
    assert result.ok  # the tool worked; the code did not
    assert result.content.startswith("before\n")
    assert "ZeroDivisionError: division by zero" in result.content


async def test_runs_share_files_and_nothing_else(environment):
    await use(environment, "run", "x = 1\nopen('note', 'w').write('kept')")
    assert (await use(environment, "run", "print(open('note').read(), 'x' in globals())")).content == "kept False"


async def test_test_says_how_many_pass_and_what_came_out_instead(environment):
    assert (await use(environment, "test", "def f(x):\n    return x * x")).content == "All 2 tests pass."
    half = await use(environment, "test", "def f(x):\n    return x + 2")
    assert half.content == "1 of 2 tests pass. These fail:\nassert f(3) == 9\n  got 5"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("def f(x", "cannot be loaded: SyntaxError"),
        ("raise SystemExit", "cannot be loaded: SystemExit"),
        ("def g(x): pass", "NameError: name 'f' is not defined"),
        ("def f(x):\n    return x.y", "AttributeError: 'int' object has no attribute 'y' (line 2)"),
        ("f = lambda x: 'z' * 10_000", "zzz..."),
        ("def f(x):\n    return f(x)", "RecursionError"),
    ],
)
async def test_test_explains_code_that_fails(environment, code, expected):
    result = await use(environment, "test", code)
    assert expected in result.content
    assert len(result.content) < 1_000


async def test_submit_refuses_code_that_does_not_compile_so_that_it_can_be_mended(environment):
    broken = await use(environment, "submit", "def f(x):\n    return (x")
    assert broken.status is ResultStatus.TOOL_ERROR
    assert not broken.final
    assert "does not compile" in broken.content
    assert "'(' was never closed" in broken.content
    assert (await use(environment, "submit", "def f(x):\n    return x * x")).final


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("hog = []\nwhile True: hog.append(bytearray(2**24))", ("memory", "MemoryError", "Ended with status")),
        ("print('x' * 10**8)", ("[cut: 2000 characters are shown]",)),
        ("[" * 3000, ("too many nested parentheses",)),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", ("Ended with status",)),
        ("import socket\nsocket.create_connection(('192.0.2.1', 80), timeout=3)", ("OSError", "PermissionError")),
        ("print('<|im_end|>')", ("<|im_end|>",)),
    ],
)
async def test_hostile_code_is_a_result_and_the_next_call_works(environment, code, expected):
    result = await use(environment, "run", code)
    assert any(piece in result.content for piece in expected), result.content
    assert len(result.content) < 3_000
    assert (await use(environment, "run", "print(7)")).content == "7"


async def test_code_that_never_ends_is_stopped(environment, monkeypatch):
    monkeypatch.setattr("agentgym.sandboxes.code.environment.RUN_S", 0.5)
    result = await use(environment, "run", "print('begun', flush=True)\nwhile True: pass")
    assert result.status is ResultStatus.TOOL_ERROR
    assert "Stopped after 0.5 s" in result.content
    assert (await use(environment, "run", "print(7)")).content == "7"


async def test_hidden_tests_are_not_in_the_sandbox(environment):
    """The environment gets the public task; what the agent can search holds no hidden value."""
    search = (
        "import gc, os\n"
        "seen = [str(v) for o in gc.get_objects() if isinstance(o, dict) for v in o.values() if isinstance(v, str)]\n"
        "print(any('12' + '1' in text for text in seen if 'gc' not in text), sorted(os.listdir('.')))"
    )
    assert (await use(environment, "run", search)).content == "False []"


async def test_without_visible_tests_the_tool_says_so():
    environment = agentgym.make("agentgym/code-v1")
    try:
        await environment.reset(Task("t", "agentgym/code-v1", "Write f."), seed=0)
        result = await use(environment, "test", "f = 1")
    finally:
        await environment.close()
    assert result.status is ResultStatus.TOOL_ERROR
    assert "no visible tests" in result.content


async def test_a_restored_checkpoint_has_the_files_and_the_state(environment):
    await use(environment, "run", "open('note', 'w').write('kept')\nprint('done')")
    checkpoint = await environment.checkpoint()
    twin = agentgym.make("agentgym/code-v1")
    try:
        await twin.restore(SQUARE.public(), checkpoint, seed=0)
        assert await twin.state_key() == await environment.state_key()
        assert (await use(twin, "run", "print(open('note').read())")).content == "kept"
    finally:
        await twin.close()


async def test_a_second_reset_leaves_nothing_of_the_first(environment):
    fresh = await environment.state_key()
    await use(environment, "run", "open('note', 'w').write('kept')")
    await environment.reset(SQUARE.public(), seed=0)
    assert await environment.state_key() == fresh
    assert (await use(environment, "run", "import os; print(os.listdir('.'))")).content == "[]"


@pytest.mark.parametrize("parameters", [{"tests": "assert f(1)"}, {"tests": [1]}, {"setup": 3}])
async def test_parameters_of_the_wrong_kind_are_refused_by_name(parameters):
    environment = agentgym.make("agentgym/code-v1")
    with pytest.raises(TaskError, match=rf"t: parameters\['{next(iter(parameters))}'\]"):
        await environment.reset(Task("t", "agentgym/code-v1", "Write f.", parameters=parameters), seed=0)
    await environment.close()
