"""`agentgym/code-verilog-v1`: write a hardware module in Verilog; Icarus Verilog compiles it and runs testbenches."""

from __future__ import annotations

from typing_extensions import override

from agentgym import tool
from agentgym.sandbox import ExecResult

from .program import BUILD_S, ProgramEnvironment
from .workbench import RUN_S

SIMULATION = "simulation"
"""The file in which a task's `program` puts the compiled simulation."""


class CodeVerilog(ProgramEnvironment):
    """Verilog writing with a simulator, without a network. Not isolated: the simulations of an episode share files.

    Task parameters as for `agentgym/code-program-v1`: `program` compiles the design and, given a testbench as input,
    simulates both; `examples` are testbenches with what they must print. The hidden testbenches are in the task's
    truth, which an environment never gets: the reward `program_output` simulates them in another sandbox. A testbench
    prints the outputs, never what they should be, so a design has no verdict to forge.
    """

    task_set = "code/verilog-v1"

    system = "Write the Verilog module, simulate it, then submit all of it."

    @tool(timeout_s=BUILD_S + 2 * RUN_S, parallel=False)
    async def simulate(self, code: str, testbench: str) -> str:
        """Compile a design with a testbench of your own and show what the simulation prints.

        Args:
            code: the design.
            testbench: a module that drives it, prints with $display and ends with $finish.
        """
        return await self._run_program(code, testbench)

    @tool(timeout_s=BUILD_S + 5 * RUN_S, parallel=False)
    async def test(self, code: str) -> str:
        """Try a design on the visible testbench."""
        return await self._test_program(code)

    @tool(final=True, timeout_s=BUILD_S + 2 * RUN_S, parallel=False)
    async def submit(self, code: str) -> str:
        """Hand in the design."""
        return await self._submit_program(code)

    @override
    async def _run_built(self, stdin: str) -> ExecResult:
        """Simulate, and remove the compiled simulation: it contains addresses, which differ in a replay."""
        result = await super()._run_built(stdin)
        await self._bench.command(["rm", "-f", SIMULATION])
        return result
