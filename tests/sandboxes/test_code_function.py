"""`agentgym/code-function-v1`: what its tools say, in two languages that are quick to compile."""

from __future__ import annotations

import pytest

import agentgym
from agentgym import Call, Task
from agentgym.errors import TaskError
from agentgym.messages import ResultStatus

pytestmark = pytest.mark.needs_namespaces

NAME = "agentgym/code-function-v1"
FUNCTION = {"name": "pick", "arguments": [["xs", "list[int]"], ["at", "int"]], "returns": "optional[int]"}
EXAMPLES = [{"arguments": [[4, 5], 1], "value": 5}, {"arguments": [[], 0], "value": None}]
GOOD = "function pick(xs, at) { console.log('at', at); return xs[at] ?? null; }"
IN_C = """
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
typedef struct { int64_t *items; size_t length; } list_int;
typedef struct { bool present; int64_t value; } optional_int;
optional_int pick(list_int xs, int64_t at) {
    if (at >= (int64_t)xs.length) return (optional_int){false, 0};
    return (optional_int){true, xs.items[at]};
}
"""


async def opened(languages=("javascript", "c"), **parameters):
    environment = agentgym.make(NAME)
    given = {"function": FUNCTION, "languages": list(languages), "examples": EXAMPLES, **parameters}
    try:
        messages = await environment.reset(Task("t", NAME, "Go.", parameters=given), seed=0)
    except BaseException:
        await environment.close()
        raise
    return environment, messages


async def test_the_agent_chooses_a_language_that_the_task_allows():
    environment, messages = await opened()

    async def result(tool, **arguments):
        return (await environment.call(Call(tool, arguments))).content

    try:
        assert "function pick(xs, at) {" in messages[0].text
        assert "optional_int pick(list_int xs, int64_t at) {" in messages[0].text
        fresh = await environment.state_key()
        assert await result("run", code=GOOD, arguments="[[7, 8], 0]") == "Returned 7\nat 0"
        assert await environment.state_key() != fresh
        assert await result("test", code=GOOD) == "All 2 examples pass."
        assert await result("test", code=IN_C, language="c") == "All 2 examples pass."
        wrong = await result("test", code=GOOD.replace("?? null", "?? 3"))
        assert wrong.startswith("1 of 2 examples pass. These fail:\npick([], 0) should be null, but is 3.\nat 1")
        assert "not a language of this task: use javascript or c" in await result("submit", code="", language="rust")
        assert "The code does not compile:\n" in await result("submit", code="int f(", language="c")
        assert "no JSON list for this function: xs: 3 is not of type list[int]" in await result(
            "run", code=GOOD, arguments="[3, 4]"
        )
        raised = await result("run", code="function pick() { throw new Error('why'); }", arguments="[[], 0]")
        assert raised.startswith("Failed: it raised an error\nError: why")
        assert "the program ended" in await result("run", code="process.exit(0)", arguments="[[], 0]")
        final = await environment.call(Call("submit", {"code": IN_C, "language": "c"}))
        assert (final.status, final.final) == (ResultStatus.OK, True)
        twin = agentgym.make(NAME)
        await twin.restore(
            Task(
                "t",
                NAME,
                "Go.",
                parameters={"function": FUNCTION, "languages": ["javascript", "c"], "examples": EXAMPLES},
            ),
            await environment.checkpoint(),
            seed=0,
        )
        assert await twin.state_key() == await environment.state_key()
    finally:
        await environment.close()


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"languages": ["cobol"]}, r"parameters\['languages'\] is .* Give some of c, cpp, go, java, javascript, rust"),
        ({"function": {"name": "f"}}, r"parameters\['function'\] is not valid: .* is not a signature"),
        ({"examples": [{"arguments": [[1]], "value": 1}]}, "call 0: .* does not have the 2 arguments of pick"),
    ],
)
async def test_a_task_that_cannot_be_played_is_named_at_its_start(parameters, reason):
    with pytest.raises(TaskError, match=reason):
        await opened(**parameters)


async def test_a_toolchain_that_does_not_work_is_named_before_the_agent_does_anything(monkeypatch):
    from dataclasses import replace

    from agentgym.sandboxes.languages import catalogue

    broken = {**catalogue.LANGUAGES, "c": replace(catalogue.LANGUAGES["c"], needs=("no-such-compiler",))}
    monkeypatch.setattr("agentgym.sandboxes.code.function.LANGUAGES", broken)
    with pytest.raises(TaskError, match="toolchain does not work: The sandbox's image has no no-such-compiler for C"):
        await opened(["c"])
