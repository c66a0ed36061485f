"""`agentgym/textworld-v1`: games of TextWorld, played by the package textworld."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from typing_extensions import override

from agentgym import (
    Call,
    GuestModule,
    GuestObject,
    Message,
    SandboxSpec,
    Task,
    TaskError,
    ToolError,
    install_command,
    tool,
)

from .base import Puzzle, Script, TextEnvironment

MAX_COMMAND = 200
MISSING = "the package textworld is not installed. Run: {}"
GUEST = GuestModule(__package__, "guest_textworld")
FILE = "/work/game"
BANNER = re.compile(r"\A\s*(?:[ _|$/>\\]+\n)+")
"""TextWorld's name in large letters, at a game's beginning."""


class Textworld(TextEnvironment):
    """A game of TextWorld, which the package textworld plays in a sandbox. Not isolated: saved games share its files.

    Needs the extra `textworld`. Task parameters: `game`, the path of the game's file, which has a
    .json file beside it. A checkpoint has the commands so far, which a restore repeats. The potential is the share of
    the highest score; that of a lost game is 0. Source: Côté et al. 2018, arXiv:1806.11532.
    """

    id = "agentgym/textworld-v1"
    axes = {}
    levels = ()
    sandbox = SandboxSpec(memory_mib=512, processes=16, disk_mib=64, preload=("textworld",))
    _game: GuestObject
    _latest: Mapping[str, Any]  # the game's state after the last command

    @classmethod
    @override
    def unavailable_reason(cls) -> str:
        return "" if find_spec("textworld") else MISSING.format(install_command("textworld"))

    def begin(self) -> dict[str, Any]:
        return {"commands": []}

    def solved(self) -> bool:
        return bool(self._latest["won"])

    def lost(self) -> bool:
        return bool(self._latest["lost"])

    def nearness(self) -> float:
        if self.solved() or self.lost():
            return float(self.solved())
        return min(float(self._latest["score"]), 0.99)

    def canonical(self) -> Any:
        """Return the facts of the game's state, or the commands so far if the game does not tell them."""
        return self._latest["facts"] or self.state

    @tool(parallel=False)
    async def act(self, command: str) -> str:
        """Do something, such as: look, inventory, go east, open the chest, take the lamp from the table."""
        self.check_open()
        command = " ".join(command.split())
        if not command or len(command) > MAX_COMMAND or not re.fullmatch(r"[\x20-\x7e]+", command):
            raise ToolError(f"Write a command of 1 to {MAX_COMMAND} plain characters.")
        await self._play([*self.state["commands"], command])
        self.settle()
        return self._text() + ("\nYou have won." if self.solved() else "\nYou have lost." if self.lost() else "")

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Begin the game. Raises: TaskError if the game cannot be read or played, or textworld is not installed."""
        if reason := self.unavailable_reason():
            raise TaskError(f"{task.id}: {reason}")
        path = Path(str(task.parameters.get("game")))
        try:
            files = {file.suffix: file.read_bytes() for file in (path, path.with_suffix(".json")) if file.is_file()}
        except OSError as error:
            raise TaskError(f"{task.id}: the game {path} cannot be read: {error}") from error
        sandbox = await self.default_sandbox(empty=True)
        for suffix, data in files.items():
            await sandbox.write(FILE + suffix, data)
        self._game, self.state = GUEST.object(sandbox, "TextworldGame", FILE + path.suffix), {}
        try:
            await self._play([])
        except ToolError as error:
            raise TaskError(f"{task.id}: the game {path} cannot be played: {error}") from error
        *opening, last = await super().reset(task, seed=seed)
        return [*opening, Message(last.role, f"{last.text}\n\n{self._text()}".strip())]

    async def restore(self, task: Task, checkpoint: Any, *, seed: int) -> None:
        await self.reset(task, seed=seed)
        await self._play(checkpoint.data["state"]["commands"])
        self.settle()

    @classmethod
    def invent(cls, rng: random.Random, axes: Mapping[str, int]) -> Puzzle:
        raise TaskError("Games of TextWorld are made by its command tw-make: import them with the importer textworld.")

    @staticmethod
    def oracle(task: Task) -> Script:
        """Play the walkthrough that the game came with."""
        commands: Sequence[str] = task.truth["walkthrough"]

        def script(messages: Sequence[Message]) -> Message:
            done = sum(message.role == "tool" for message in messages)
            calls = (Call("act", {"command": commands[done]}),) if done < len(commands) else ()
            return Message("assistant", "", calls)

        return script

    async def _play(self, commands: Sequence[str]) -> None:
        """Play what is new of all commands; a game that was lost with its process repeats them. Raises: ToolError."""
        self._latest = await self._game.call("play", list(commands))
        self.state["commands"] = list(commands)

    def _text(self) -> str:
        """Return the game's last text without its banner, its prompt, its status line and outer empty lines."""
        text = BANNER.sub("", self._latest["text"])
        return re.sub(r"\n>[^\n]*\Z", "", text.rstrip()).strip()
