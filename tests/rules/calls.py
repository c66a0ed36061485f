"""How many Python calls the hot paths make: figures that no load on the machine can move.

`calls.toml` holds what each piece of work may make, on one version of Python. A test fails where a count has risen, so
that it can only fall:

    python tests/rules/calls.py             the counts of today, beside what is allowed
    python tests/rules/calls.py NAME        the functions that make them, dearest first
    python tests/rules/calls.py --update    write today's counts into calls.toml
"""

from __future__ import annotations

import asyncio
import gc
import os
import platform
import sys
import tempfile
import threading
import tomllib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

sys.path += [str(Path(__file__).parents[1] / folder) for folder in ("support", "../benchmarks")]  # as pytest does
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import overhead
from source_tree import CONTENT, ROOT

from agentgym import SandboxSpec
from agentgym.sandbox import NamespacesBackend

TABLE = Path(__file__).with_name("calls.toml")
PYTHON = ".".join(platform.python_version_tuple()[:2])
SLACK = 0.01
"""What a count may differ between runs: a late timer or a second read from a socket calls a few functions more."""


@dataclass(frozen=True)
class Work:
    """Work whose calls are counted.

    Attributes:
        do: does the work n times.
        times: the two n that are compared; what is done once, whatever n is, is in neither figure.
        units: what one time is, in units of the figure: the turns of an episode.
        ours: count functions of agentgym alone, where most calls are another library's.
    """

    do: Callable[[int], Any]
    times: tuple[int, int] = (20, 60)
    units: int = 1
    ours: bool = False

    def calls(self) -> Counter[CodeType]:
        """Count the calls of each function, between the lower and the higher number of times."""
        low, high = self.times
        self.do(low)  # fills caches, imports
        counts = self._count(high)
        counts.subtract(self._count(low))
        return counts

    def per_unit(self, calls: int) -> float:
        low, high = self.times
        return calls / ((high - low) * self.units)

    def _count(self, times: int) -> Counter[CodeType]:
        counts: Counter[CodeType] = Counter()

        def note(frame: FrameType, event: str, _: Any) -> None:
            if event == "call":
                counts[frame.f_code] += 1

        gc.collect()
        gc.disable()  # it calls what others register with it, at any time
        threading.setprofile(note)
        sys.setprofile(note)
        try:
            self.do(times)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
            gc.enable()
        return Counter({code: n for code, n in counts.items() if not self.ours or is_ours(code)})


@cache
def is_ours(code: CodeType) -> bool:
    """Whether a function stands in the source tree of agentgym."""
    path = Path(code.co_filename)
    return path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in ("agentgym", *CONTENT)


def play(episodes: int) -> None:
    overhead.episodes_played(episodes)


def play_by_token(episodes: int) -> None:
    overhead.episodes_played(episodes, tokens=True)


def play_into_ledger(episodes: int) -> None:
    overhead.episodes_kept(episodes)


def run_python_in_sandbox(times: int) -> None:
    async def run() -> None:
        backend = NamespacesBackend()
        sandbox = await backend.create(SandboxSpec())
        for _ in range(times):
            await sandbox.run_python("pass")
        await sandbox.close()
        await backend.close()

    asyncio.run(run())


def training_steps(times: int) -> None:
    """Take whole steps, from episodes made beforehand to weights."""
    from tiny_trainers import rows, trainer_of

    from agentgym.policy import make_tokenizer

    with tempfile.TemporaryDirectory() as folder:
        tokenizer = make_tokenizer(["select email from customers"] * 20, vocab_size=300)
        trainer = trainer_of(tokenizer, Path(folder))
        trainer.create_optimizer_and_scheduler(100)
        trainer.current_gradient_accumulation_steps = 1
        trainer.model.train()
        for _ in range(times):
            trainer.training_step(trainer.model, rows(), None)
            trainer.optimizer.step()
            trainer.optimizer.zero_grad()


WORK = {
    "a call of an environment's tool": Work(overhead.environment_calls, (100, 300)),
    "a turn in memory": Work(play, units=overhead.TURNS),
    "a turn token by token": Work(play_by_token, units=overhead.TURNS),
    "a turn with the ledger": Work(play_into_ledger, units=overhead.TURNS),
    "run_python in a sandbox, in agentgym": Work(run_python_in_sandbox, ours=True),
    "a training step, in agentgym": Work(training_steps, (1, 3), ours=True),
}


def count(name: str) -> float:
    """Return the Python calls of one unit of work today."""
    work = WORK[name]
    return round(work.per_unit(work.calls().total()), 1)


def allowed() -> dict[str, Any]:
    """Return the table: `python`, the version that it is for, and `calls`, by the name of the work."""
    return tomllib.loads(TABLE.read_text())


def as_toml(counts: dict[str, float]) -> str:
    """Return the text of calls.toml."""
    head = "# Python calls of one unit of work. Written by: python tests/rules/calls.py --update\n"
    return f'{head}python = "{PYTHON}"\n\n[calls]\n' + "".join(f'"{name}" = {n}\n' for name, n in counts.items())


def show(name: str) -> None:
    """Print what each function adds to a count."""
    work = WORK[name]
    calls = work.calls()
    for code, n in (+calls).most_common():
        where = f"{Path(code.co_filename).name}:{code.co_firstlineno} {code.co_qualname}"
        print(f"{work.per_unit(n):8.3f}  {where}")
    print(f"{work.per_unit(calls.total()):8.3f}  {name}")


def main(arguments: list[str]) -> None:
    if names := [name for name in arguments if name in WORK]:
        show(names[0])
        return
    counts = {name: count(name) for name in WORK}
    if "--update" in arguments:
        TABLE.write_text(as_toml(counts))
    limits = allowed()["calls"]
    for name, n in counts.items():
        print(f"{name:32} {n:8.1f}   allowed {limits.get(name, 0):8.1f}")


if __name__ == "__main__":
    main(sys.argv[1:])
