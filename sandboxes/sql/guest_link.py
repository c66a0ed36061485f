"""Asking a guest object that lives in a session of a sandbox, one request at a time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from agentgym import ToolError
from agentgym.errors import SandboxDied
from agentgym.sandbox import Sandbox

CALL_S = 10.0
MAX_REPLY_BYTES = 4 * 2**20

_LOADER = """
import sys, types
sys.modules["guests"] = types.ModuleType("guests")
def _load(name, source):
    module = sys.modules["guests." + name] = types.ModuleType("guests." + name)
    module.__package__ = "guests"
    exec(compile(source, name + ".py", "exec"), module.__dict__)
    return module
"""


class GuestLink:
    """One guest object in one sandbox. A guest that was lost (time, memory) is made anew by the next request.

    Args:
        machine: where it lives.
        modules: files of this folder that it is made of, those that others import first; `guest` is the first.
        maker: expression that makes the object, in which the last module is called `guest`.
        call_s: seconds that a request may take; the guest's own limits should strike before.
    """

    def __init__(self, machine: Sandbox, modules: Sequence[str], maker: str, *, call_s: float = CALL_S) -> None:
        self._machine, self._modules, self._maker, self._call_s = machine, tuple(modules), maker, call_s
        self._session = 0
        self._open = False
        self._turn = asyncio.Lock()  # parallel calls of one turn share the one connection
        self.losses = 0  # of guests, by time or memory

    async def ask(self, method: str, *arguments: Any) -> Any:
        """What a method of the guest object returns.

        Raises: ToolError with what it refused; SandboxDied if it talks nonsense.
        """
        async with self._turn:
            code = f"serve(database, *{[method, *arguments]!a})"
            if not self._open:
                self._session += 1
                code = f"{program(self._modules)}\ndatabase = {self._maker}\n{code}"
            self._open = False  # stays so if we are cancelled: the session may be lost, and the next call opens another
            result = await self._machine.run_python(
                code, session=f"sql{self._session}", timeout_s=self._call_s, max_output_bytes=MAX_REPLY_BYTES
            )
            if result.timed_out or result.oom_killed or result.exit_code < 0:
                self.losses += 1
                raise ToolError("The query used too much time or memory and was stopped. Ask for less.")
            try:
                reply: dict[str, Any] = json.loads(result.stdout)
            except ValueError as error:
                said = result.stderr.decode("utf-8", "replace")[-500:]
                raise SandboxDied(f"The SQL guest ended with {result.exit_code} and no reply: {said}") from error
            self._open = True
        if "refused" in reply:
            raise ToolError(reply["refused"])
        return reply["ok"]


@cache
def program(modules: tuple[str, ...]) -> str:
    """The text that loads the modules, each of which may import those before it as siblings."""
    folder = files("agentgym.sandboxes.sql")
    sources = [(name, folder.joinpath(f"{name}.py").read_text(encoding="utf-8")) for name in modules]
    loads = "\n".join(f"guest = _load({name!a}, {source!a})" for name, source in sources)
    return f"{_LOADER}{loads}\nserve = sys.modules['guests.guest'].serve"
