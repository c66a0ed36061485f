"""The task set `code/verilog-v1`: generated hardware modules, with a visible and several hidden testbenches."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from agentgym import Task, TaskSet

from ..generator import TaskGenerator, TaskSlot
from ..reference_oracle import oracle
from .design import Design
from .families import KNOWN, UNSEEN

NAME = "code/verilog-v1"
SIZES = {"train": 1_000, "validation": 120, "unseen_parameters": 120, "unseen_families": 100}
VISIBLE, HIDDEN, VECTORS = 1, 3, 24
RESERVED = 5
"""Every fifth design, by a hash of its description, is reserved for the stratum `unseen_parameters`."""

PROGRAM = {
    "file": "design.v",
    "build": ["iverilog", "-g2012", "-t", "null", "design.v"],
    "run": ["sh", "-c", "cat > testbench.v && iverilog -g2012 -o simulation design.v testbench.v && vvp -n simulation"],
}


@cache
def task_set(seed: int = 0) -> TaskSet:
    """Hardware modules to be written in Verilog.

    The seed chooses the parameters and vectors.

    Held-out tasks carry the tag `unseen_parameters` (families of the training tasks, with other parameters) or
    `unseen_families` (families that no training task has). Difficulty is 1 for a design without state and 2 for a
    clocked one.
    """
    draw = TaskGenerator(NAME, SIZES, seed, key=lambda task: task.prompt, tries=10_000).draw
    held_out = [*draw("unseen_parameters", _task, KNOWN), *draw("unseen_families", _task, UNSEEN)]
    train, validation = draw("train", _task, KNOWN), draw("validation", _task, KNOWN)
    return TaskSet(NAME, {"held_out": held_out, "validation": validation, "train": train}, oracle=oracle)


def _task(rng: random.Random, slot: TaskSlot, families: Mapping[str, Callable[[random.Random], Design]]) -> Task | None:
    """Make the task; return None if it is reserved for another stratum or its outputs are constant in a testbench."""
    design = families[rng.choice(list(families))](rng)
    reserved = zlib.crc32(design.words.encode()) % RESERVED == 0
    fits = slot.stratum == "unseen_families" or reserved is (slot.stratum == "unseen_parameters")
    benches = [design.draw(rng, VECTORS) for _ in range(VISIBLE + HIDDEN)]
    if not fits or any(len(set(_values(design, bench))) == 1 for bench in benches):
        return None
    runs = [{"stdin": design.testbench(bench), "stdout": design.printed(bench)} for bench in benches]
    return Task(
        id=slot.id,
        environment="agentgym/code-verilog-v1",
        prompt=f"Write this Verilog module:\n{design.header()}\n{design.words}",
        parameters={"program": PROGRAM, "examples": runs[:VISIBLE]},
        truth={"runs": runs[VISIBLE:], "reference": design.reference()},
        split=slot.split,
        tags=(design.kind, *slot.tags),
        difficulty=2.0 if design.clocked else 1.0,
    )


def _values(design: Design, vectors: Sequence[Mapping[str, int]]) -> list[tuple[int, ...]]:
    return [tuple(values[name] for name in design.outputs) for values in design.model(vectors)]
