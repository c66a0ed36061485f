"""Programs in any language, Verilog, the notebook, mathematics and completion: what their tools say."""

from __future__ import annotations

import pytest

import agentgym
from agentgym import Call, Task
from agentgym.errors import SandboxError, TaskError
from agentgym.messages import ResultStatus

pytestmark = pytest.mark.needs_namespaces

C = {"file": "main.c", "build": ["gcc", "-o", "main", "main.c"], "run": ["./main"]}
ECHO = '#include <stdio.h>\nint main() { int n; scanf("%d", &n); printf("%d\\n", n + 1); return 0; }\n'
EXAMPLES = [{"stdin": "1\n", "stdout": "2\n"}, {"stdin": "5\n", "stdout": "6\n"}]


async def opened(name, **parameters):
    environment = agentgym.make(name)
    await environment.reset(Task("t", name, "Go.", parameters=parameters), seed=0)
    return environment


async def output(environment, name, **arguments):
    return (await environment.call(Call(name, arguments))).content


async def test_a_program_is_compiled_run_tried_and_handed_in():
    environment = await opened("agentgym/code-program-v1", program=C, examples=EXAMPLES)
    try:
        assert await output(environment, "run", code=ECHO, stdin="41") == "42"
        assert await output(environment, "test", code=ECHO) == "All 2 examples pass."
        wrong = await output(environment, "test", code=ECHO.replace("n + 1", "2"))
        assert wrong.startswith("1 of 2 examples pass.")
        assert "expected:\n6\n\ngot:\n2" in wrong
        broken = await environment.call(Call("submit", {"code": "int main() { return x; }"}))
        assert broken.status is ResultStatus.TOOL_ERROR
        assert "undeclared" in broken.content
        unlinked = await output(environment, "run", code="int f();\nint main() { return f(); }")
        assert "undefined reference" in unlinked
        assert unlinked == await output(
            environment, "run", code="int f();\nint main() { return f(); }"
        )  # no chance names
        assert (await environment.call(Call("submit", {"code": ECHO}))).final
    finally:
        await environment.close()


async def test_a_language_that_the_image_lacks_is_named_with_what_to_install():
    environment = await opened("agentgym/code-program-v1", program={"file": "a.zig", "run": ["no-such-zig", "a.zig"]})
    try:
        with pytest.raises(TaskError, match=r"needs no-such-zig, which the sandbox's image does not have\. Install it"):
            await output(environment, "run", code="")
    finally:
        await environment.close()


async def test_a_compiler_that_fails_on_a_harmless_program_is_not_the_fault_of_the_agent():
    """The agent could hand in nothing, and would be judged for that."""
    program = {"file": "m.c", "build": ["gcc", "--no-such-option", "m.c"], "run": ["./a.out"]}
    environment = await opened("agentgym/code-program-v1", program=program)
    try:
        with pytest.raises(TaskError, match=r"toolchain does not work: 'gcc --no-such-option m\.c' fails"):
            await output(environment, "submit", code=ECHO)
    finally:
        await environment.close()


@pytest.mark.parametrize("program", [None, {}, {"run": ["a"]}, {"file": 3, "run": ["a"]}, "python"])
async def test_a_program_that_is_none_is_refused(program):
    with pytest.raises(TaskError, match=r"parameters\['program'\]"):
        await opened("agentgym/code-program-v1", program=program)


async def test_the_notebook_shows_the_last_value_and_keeps_variables_until_it_is_restarted():
    environment = await opened("agentgym/code-notebook-v1", files={"a.txt": "7"})
    try:
        assert await output(environment, "cell", code="x = int(open('a.txt').read())\nx + 1") == "8"
        assert await output(environment, "cell", code="def f():\n    return x * 2\nprint('p'); f()") == "p\n14"
        assert "ZeroDivisionError" in await output(environment, "cell", code="1 / 0")
        assert await output(environment, "cell", code="_") == "14"
        assert await output(environment, "restart") == "Restarted."
        assert "NameError" in await output(environment, "cell", code="x")
    finally:
        await environment.close()


async def test_a_notebook_is_restored_by_its_cells_and_one_that_draws_from_chance_is_not():
    environment = await opened("agentgym/code-notebook-v1")
    twin, other = (agentgym.make("agentgym/code-notebook-v1") for _ in range(2))
    task = Task("t", "agentgym/code-notebook-v1", "Go.")
    try:
        await output(environment, "cell", code="rows = [1]\nopen('f', 'a').write('x')")
        await output(environment, "cell", code="rows.append(2)")
        await twin.restore(task, await environment.checkpoint(), seed=0)
        assert await twin.state_key() == await environment.state_key()
        assert await output(twin, "cell", code="rows, open('f').read()") == "([1, 2], 'x')"
        await output(environment, "cell", code="import os; os.urandom(9)")
        with pytest.raises(SandboxError, match="cannot be repeated"):
            await other.restore(task, await environment.checkpoint(), seed=0)
    finally:
        for instance in (environment, twin, other):
            await instance.close()


async def test_a_cell_that_kills_its_session_restarts_the_notebook():
    environment = await opened("agentgym/code-notebook-v1")
    try:
        await output(environment, "cell", code="x = 1")
        gone = await environment.call(Call("cell", {"code": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"}))
        assert gone.status is ResultStatus.TOOL_ERROR
        assert "its variables are gone" in gone.content
        assert "NameError" in await output(environment, "cell", code="x")
        assert await environment.checkpoint() is None
    finally:
        await environment.close()


async def test_mathematics_has_sympy_ready_where_it_is_installed():
    pytest.importorskip("sympy")
    environment = await opened("agentgym/code-maths-v1")
    try:
        code = "from sympy import *\nx = symbols('x')\nprint(integrate(x * exp(x), x), solve(x**2 - 2, x))"
        assert await output(environment, "python", code=code) == "(x - 1)*exp(x) [-sqrt(2), sqrt(2)]"
    finally:
        await environment.close()


async def test_a_completion_grows_piece_by_piece_and_an_empty_one_cannot_be_finished():
    environment = await opened("agentgym/code-complete-v1", before="def f(x):\n", after="\ny = 1\n")
    empty = await environment.call(Call("finish", {}))
    assert empty.status is ResultStatus.TOOL_ERROR
    fresh = await environment.state_key()
    assert await output(environment, "write", text="    return x") == "def f(x):\n    return x\n\ny = 1\n"
    assert await output(environment, "undo") == "def f(x):\n\ny = 1\n"
    assert await environment.state_key() == fresh
    assert "Nothing is written" in await output(environment, "undo")
