"""`agentgym/code-v1`: write a Python function in a sandbox. Hidden tests judge it in another sandbox."""

from __future__ import annotations

from agentgym import Checkpoint, Environment, Message, ObservedState, SandboxSpec, Task, ToolError, tool

from .transcript import report
from .workbench import RUN_S, Workbench, assertions_of, text_of


class Code(Environment):
    """Function writing in a sandbox without network. Not isolated: the agent's runs share its files under /work.

    Task parameters: `tests`, a list of visible assertions such as "assert f(2) == 4" (may be empty);
    `setup`, code to run before them (optional). The hidden tests are in the task's truth, which an environment
    never gets: the reward `hidden_tests` runs them.
    """

    sandbox = SandboxSpec(memory_mib=512, processes=32, disk_mib=64, preload=("json",))
    reward = "hidden_tests"
    task_set = "code/functions-v1"
    _bench: Workbench
    _tests: list[str]
    _setup: str
    _observed: ObservedState

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Open an empty sandbox. Raises: TaskError if the visible tests are not a list of text."""
        await self._open(task, None)
        return [Message("system", "Write the code, test it, then submit all of it."), *task.opening()]

    @tool(parallel=False)
    async def run(self, code: str) -> str:
        """Run Python and show what it prints."""
        return self._observed.add(report(await self._bench.python(code, timeout_s=RUN_S), RUN_S))

    @tool(parallel=False)
    async def test(self, code: str) -> str:
        """Try code on the visible tests."""
        if not self._tests:
            raise ToolError("This task has no visible tests. Try the code with run.")
        return self._observed.add(report(await self._bench.run_tests(code, self._setup, self._tests), RUN_S))

    @tool(final=True, parallel=False)
    async def submit(self, code: str) -> str:
        """Hand in the code."""
        await self._bench.check_compiles(code)
        return "Submitted."

    async def state_key(self) -> str | None:
        """Return a hash of all that the agent knows: the tests, and the set of the results seen so far."""
        return self._observed.key()

    async def checkpoint(self) -> Checkpoint | None:
        return await self._bench.checkpoint(**self._observed.data())

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        await self._open(task, checkpoint)

    async def _open(self, task: Task, checkpoint: Checkpoint | None) -> None:
        """Read the task's parameters and open the sandbox: an empty one, or one with the checkpoint's files."""
        self._tests, self._setup = assertions_of(task), text_of(task, "setup")
        self._observed = ObservedState(repr(self._tests), checkpoint.data["seen"] if checkpoint else ())
        self._bench = Workbench(self, {}, checkpoint=checkpoint)
        await self._bench.sandbox()
