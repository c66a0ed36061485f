"""A hardware design: its ports, its description, a model in Python and a reference in Verilog."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Values = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Design:
    """One module to write.

    Attributes:
        kind: its family. words: its description in English.
        inputs, outputs: widths in bits by name; a clocked design also has the inputs `clk` and `rst`.
        model: computes output values. It is called with a list of input values by name, one for each vector or clock
            edge, and returns the outputs after each.
        body: the body of the reference module. registers: whether outputs are declared as `reg`.
        clocked: whether outputs change at the rising edge of clk; rst is synchronous and sets the state to 0.
    """

    kind: str
    words: str
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]
    model: Callable[[Sequence[Values]], list[Values]]
    body: str
    registers: bool = False
    clocked: bool = False

    def header(self) -> str:
        """Return the module's declaration with its ports."""
        ports = ["input clk", "input rst"] if self.clocked else []
        ports += [f"input {_range(width)}{name}" for name, width in self.inputs.items()]
        kind = "output reg" if self.registers else "output"
        ports += [f"{kind} {_range(width)}{name}" for name, width in self.outputs.items()]
        return f"module dut({', '.join(ports)});"

    def reference(self) -> str:
        """Return the reference design in Verilog."""
        return f"{self.header()}\n{self.body.strip()}\nendmodule\n"

    def testbench(self, vectors: Sequence[Values]) -> str:
        """Return a Verilog testbench that applies the vectors and prints the outputs after each."""
        lines = ["`timescale 1ns/1ns", "module testbench;"]
        lines += ["reg clk = 0, rst = 1;"] if self.clocked else []
        lines += [f"reg {_range(width)}{name} = 0;" for name, width in self.inputs.items()]
        lines += [f"wire {_range(width)}{name};" for name, width in self.outputs.items()]
        names = [*(("clk", "rst") if self.clocked else ()), *self.inputs, *self.outputs]
        lines += [f"dut unit({', '.join(f'.{name}({name})' for name in names)});", "initial begin"]
        if self.clocked:
            lines.append("#5 clk = 1; #5 clk = 0; rst = 0;")
        outputs = ", ".join(self.outputs)
        format_string = " ".join(f"{name}=%0d" for name in self.outputs)
        step = "#5 clk = 1; #5 clk = 0;" if self.clocked else "#5"
        for number, values in enumerate(vectors):
            assignments = " ".join(f"{name} = {self.inputs[name]}'d{value};" for name, value in values.items())
            lines.append(f'{assignments} {step} $display("{number}: {format_string}", {outputs});')
        return "\n".join([*lines, "$finish;", "end", "endmodule", ""])

    def printed(self, vectors: Sequence[Values]) -> str:
        """Return the output of the testbench for a correct design."""
        lines = []
        for number, values in enumerate(self.model(vectors)):
            lines.append(f"{number}: " + " ".join(f"{name}={values[name]}" for name in self.outputs))
        return "\n".join(lines) + "\n"

    def draw(self, rng: random.Random, count: int) -> list[Values]:
        """Draw random input values; the smallest and largest value are drawn more often."""
        return [
            {
                name: rng.choice((0, 2**width - 1)) if rng.random() < 0.15 else rng.randrange(2**width)
                for name, width in self.inputs.items()
            }
            for _ in range(count)
        ]


def _range(width: int) -> str:
    return f"[{width - 1}:0] " if width > 1 else ""
