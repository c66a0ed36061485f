"""Makes a real run: a clumsy player in a small environment, judged, credited and evaluated as a training run is.

python tests/viewer/watched_run.py FOLDER    waits for a line on standard input before each further step
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
import re
import struct
import sys
import zlib
from pathlib import Path

from agentgym import Budgets, EpisodeManager, Policy, RolloutConfig, Task, TaskSet, tool
from agentgym.credit import Group, estimator
from agentgym.evaluation.runner import evaluate
from agentgym.messages import Call, ImagePart, Message, TextPart
from agentgym.policy import Reply
from agentgym.storage.ledger import Ledger
from agentgym.storage.run_folder import RunFolder
from agentgym.testing import ByteRenderer, Counter, TargetReached
from agentgym.testing.byte_renderer import AGENT, CALL, END, PROMPT

ATTACK = (
    "<script>window.owned = 1</script><img src=x onerror='window.owned = 2'>"
    "</script><svg onload='window.owned = 3'>\x1b[31m\u202e<a href='javascript:window.owned=4'>here</a>"
)
RECIPE = """name = "watched"

[tasks]
set = "counting/small-v1"

[train]
steps = 6
estimator = "return_to_go"
validate_tasks = 8
"""


class Billboard(Counter):
    """A counter beside a billboard that shows a picture and whatever anybody pasted on it."""

    @tool(inline=True)
    def look(self) -> tuple[TextPart, ImagePart]:
        """Look at the billboard."""
        return TextPart(ATTACK), ImagePart(base64.b64encode(png(24, 16)).decode())


class Player(Policy):
    """Counts on with chance `skill`; else does one of the things that go wrong. Its log-probabilities are made up."""

    renderer = ByteRenderer()

    def __init__(self, skill: float, rng: random.Random) -> None:
        self.name = f"a player of skill {skill}"
        self._skill, self._rng = skill, rng

    async def generate(self, request):
        message = self._message(request.messages)
        ids = self.renderer.encode(message)
        logprobs = [-self._rng.expovariate(3.0) for _ in ids]
        return Reply(message, ids, logprobs, policy_version=self.version)

    def _message(self, messages) -> Message:
        target = int(re.search(r"Count to (\d+)", messages[-1].text if len(messages) < 2 else messages[0].text)[1])
        value = max((int(m.text) for m in messages if m.role == "tool" and m.text.isdigit()), default=0)
        if self._rng.random() < self._skill:
            call = Call("add", {"amount": 1}) if value < target else Call("submit", {})
            return Message("assistant", f"The counter shows {value}.", (call,))
        wrong = [
            Call("look", {}),
            Call("refuse", {}),
            Call("add", {"amount": "much"}),
            Call("count", {"to": target}),
            Call("", {}, error="This is no call: write [name, {...}]."),
            Call("submit", {}),
            None,
        ]
        call = self._rng.choice(wrong)
        if call is None:
            return Message("assistant", "")
        return Message("assistant", "I try something else.\n" if call.name == "look" else "", (call,))


def task_set() -> TaskSet:
    def tasks(split: str, first: int, count: int) -> list[Task]:
        return [
            Task(
                f"{split}/{i}",
                "test/billboard-v1",
                f"Count to {1 + i}.",
                truth=1 + i,
                split=split,
                parameters={"note": ATTACK},
                tags=("even" if i % 2 else "odd",),
            )
            for i in range(first, first + count)
        ]

    return TaskSet("counting/small-v1", {"train": tasks("train", 0, 4), "held_out": tasks("held_out", 4, 4)})


async def make(path: Path, *, steps: int = 5, seed: int = 3, wait=None) -> RunFolder:
    """Write the folder: evaluations before and after, and `steps` steps of groups of four with their credit.

    `wait` is called before every step but the first.
    """
    rng, folder, tasks = random.Random(seed), RunFolder(path).create(), task_set()
    folder.recipe.write_text(RECIPE, encoding="utf-8")
    write_tokenizer(path / "checkpoints" / "final")
    ledger = Ledger(folder.ledger)
    budgets = Budgets(max_turns=12)
    config = RolloutConfig(group_size=2, environment=Billboard, reward=TargetReached(), budgets=budgets)
    try:
        await measured(folder, ledger, tasks, "before", Player(0.5, rng), config)
        for step in range(steps):
            if step and wait is not None:
                wait(step)
            player = Player(0.55 + 0.08 * step, rng)
            player.version = step
            manager = EpisodeManager(player, config, ledger=ledger, label=f"train-{step:06d}")
            trajectories = sorted(await manager.collect(list(tasks["train"]), 4), key=lambda t: (t.task.id, t.sample))
            groups = [Group.from_trajectories(trajectories[at : at + 4]) for at in range(0, len(trajectories), 4)]
            with (path / "credit.jsonl").open("a", encoding="utf-8") as file:
                credit = [values for group in groups for values in estimator("return_to_go")(group)]
                for trajectory, advantages in zip(trajectories, credit, strict=True):
                    row = {"trajectory": trajectory.id, "step": step, "advantages": advantages.tolist()}
                    file.write(json.dumps(row) + "\n")
            success = sum(t.success or 0 for t in trajectories) / len(trajectories)
            how = {"async/age_mean": 0.5 + step / 8, "async/age_max": 2.0, "async/masked": 0.0, "cluster/nodes": 3.0}
            how |= {"async/in_flight": 7.0, "async/queued": step, "async/publish_s": 0.0012, "pace/tools_wait": 0.25}
            folder.log(
                step + 1, "train", success=success, reward=success + 0.1, turns=4.0, entropy=1 / (1 + step), **how
            )
            folder.log(step + 1, "validation", success=success, failed=0)
        await measured(folder, ledger, tasks, "after", Player(0.95, rng), config)
    finally:
        ledger.close()
    return folder


async def measured(folder, ledger, tasks, label, player, config) -> None:
    evaluation = await evaluate(player, tasks, "held_out", config=config, label=label, ledger=ledger)
    folder.write_json(f"evaluation/{label}.json", evaluation.to_json())


def write_tokenizer(folder: Path) -> None:
    """The byte renderer's tokens as a tokenizer file, in the format of published ones."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = {byte: chr(byte) for byte in printable} | {byte: chr(256 + i) for i, byte in enumerate(others)}
    control = {PROMPT: "<|prompt|>", AGENT: "<|agent|>", END: "<|end|>", CALL: "<|call|>"}
    folder.mkdir(parents=True)
    vocabulary = {"type": "BPE", "vocab": {letter: byte for byte, letter in letters.items()}, "merges": []}
    added = [{"id": i, "content": name, "special": True} for i, name in control.items()]
    data = {"model": vocabulary, "added_tokens": added, "decoder": {"type": "ByteLevel"}}
    (folder / "tokenizer.json").write_text(json.dumps(data), encoding="utf-8")


def png(width: int, height: int) -> bytes:
    """A small picture: a slope from blue to orange."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    rows = b"".join(
        b"\0" + bytes(v for x in range(width) for v in (255 * x // width, 110, 255 - 255 * x // width))
        for _ in range(height)
    )
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


if __name__ == "__main__":

    def wait_for_line(step: int) -> None:
        print(step, flush=True)
        if not sys.stdin.readline():
            raise SystemExit("nobody waits any more")

    asyncio.run(make(Path(sys.argv[1]), steps=3, wait=wait_for_line))
