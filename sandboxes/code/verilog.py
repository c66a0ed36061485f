"""`agentgym/code-verilog-v1`: write a hardware module in Verilog; Icarus Verilog compiles it and runs testbenches."""

from __future__ import annotations

from agentgym import Checkpoint, Environment, Message, SandboxSpec, Task, tool

from .program import BUILD_S, ProgramBench
from .workbench import RUN_S


class CodeVerilog(Environment):
    """Verilog writing with a simulator, without a network. Not isolated: the simulations of an episode share files.

    Task parameters as of `agentgym/code-program-v1`: `program` compiles the design and, given a testbench as input,
    simulates both; `examples` are testbenches with what they must print. The hidden testbenches are in the task's
    truth, which never comes here: the reward `program_output` simulates them in another sandbox. A testbench says
    what the outputs are, never what they should be: a design has no verdict to forge.
    """

    sandbox = SandboxSpec(memory_mib=512, processes=64, disk_mib=64)
    reward = "program_output"

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Raises: TaskError for a program or examples that are none."""
        self._bench = ProgramBench(self, task)
        return [Message("system", "Write the Verilog module, simulate it, then submit all of it."), *task.opening()]

    @tool(timeout_s=BUILD_S + 2 * RUN_S)
    async def simulate(self, code: str, testbench: str) -> str:
        """Compile a design with a testbench of your own and show what the simulation prints.

        Args:
            code: the design.
            testbench: a module that drives it, prints with $display and ends with $finish.
        """
        return await self._bench.run(code, testbench)

    @tool(timeout_s=BUILD_S + 5 * RUN_S)
    async def test(self, code: str) -> str:
        """Try a design on the visible testbench."""
        return await self._bench.test(code)

    @tool(final=True, timeout_s=BUILD_S + 2 * RUN_S)
    async def submit(self, code: str) -> str:
        """Hand in the design."""
        return await self._bench.submit(code)

    async def state_key(self) -> str | None:
        """Hash of all files, the design tried last among them, and of the visible testbench."""
        return await self._bench.state_key()

    async def checkpoint(self) -> Checkpoint | None:
        return await self._bench.checkpoint()

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        self._bench = ProgramBench(self, task, checkpoint)
