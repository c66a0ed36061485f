"""A sandbox that dies while a tool reads its files: never a result, whatever error the tool makes of it."""

from __future__ import annotations

import pytest

from agentgym import Call, Environment, ToolError, tool
from agentgym.errors import SandboxDied, SandboxExhausted
from agentgym.messages import ResultStatus


class Reads(Environment):
    """Its tool takes every OSError for the file's."""

    def __init__(self, error: OSError) -> None:
        self.error = error

    @tool
    def read(self) -> str:
        """Read the file."""
        try:
            raise self.error
        except OSError as error:
            raise ToolError(f"It cannot be read: {error}.") from error


async def test_a_dead_sandbox_is_never_a_result_though_a_tool_takes_it_for_a_missing_file():
    with pytest.raises(SandboxDied, match="it has died"):
        await Reads(SandboxDied("it has died")).call(Call("read"))
    for the_agents in (FileNotFoundError("no file"), SandboxExhausted("out of memory")):
        assert (await Reads(the_agents).call(Call("read"))).status is ResultStatus.TOOL_ERROR
