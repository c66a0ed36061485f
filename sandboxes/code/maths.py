"""`agentgym/code-maths-v1`: mathematics with a Python interpreter, and with sympy if it is installed."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

from agentgym import Checkpoint, Environment, Message, ObservedState, SandboxSpec, Task, tool

from .transcript import report
from .workbench import RUN_S, Workbench

SYSTEM = "Solve the problem. You may compute with Python{sympy}. Then answer with the result alone."


class CodeMaths(Environment):
    """A problem with one exact answer, and Python in a sandbox without network. Not isolated: runs share their files.

    Each run is a separate program. If sympy is installed beside agentgym, the sandbox has already imported it, so that
    using it costs no start-up time. The answer is in the task's truth, which an environment never gets.
    """

    sandbox = SandboxSpec(memory_mib=512, processes=16, disk_mib=32)
    reward = "symbolic_maths"
    task_set = "code/maths-v1"
    _bench: Workbench
    _has_sympy: bool
    _observed: ObservedState

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        self._open(None)
        return [Message("system", SYSTEM.format(sympy=" and sympy" if self._has_sympy else "")), *task.opening()]

    @tool(parallel=False)
    async def python(self, code: str) -> str:
        """Run Python and show what it prints."""
        return self._observed.add(report(await self._bench.python(code), RUN_S))

    @tool(final=True, inline=True)
    def answer(self, text: str) -> str:
        """Give the answer: a number, or an expression."""
        return "Noted."

    async def state_key(self) -> str | None:
        """Hash of every result seen so far, in any order, and of the files: all that the agent can know."""
        return self._observed.key(await self._bench.state_key())

    async def checkpoint(self) -> Checkpoint | None:
        return await self._bench.checkpoint(**self._observed.data())

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        self._open(checkpoint)

    def _open(self, checkpoint: Checkpoint | None) -> None:
        self._has_sympy = find_spec("sympy") is not None
        spec = replace(CodeMaths.sandbox, preload=("sympy",)) if self._has_sympy else None
        self._bench = Workbench(self, {}, spec=spec, checkpoint=checkpoint)
        self._observed = ObservedState(seen=checkpoint.data["seen"] if checkpoint else ())
