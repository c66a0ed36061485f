"""`agentgym/textworld-v1`: games of TextWorld, played by the package textworld."""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from typing_extensions import override

from agentgym import Call, Message, Task, TaskError, ToolError, install_command, tool

from .base import Puzzle, Script, TextEnvironment

MAX_COMMAND = 200
MISSING = "the package textworld is not installed. Run: {}"
OF_FILES = re.compile(r"\b(save|restore|(un|no)?script|transcri\w*)\b", re.IGNORECASE)
"""Words of commands by which the interpreter writes and reads files of this host. It reads nine letters of a word."""
BANNER = re.compile(r"\A\s*(?:[ _|$/>\\]+\n)+")
"""TextWorld's name in large letters, at a game's beginning."""


class Textworld(TextEnvironment):
    """A game of TextWorld. Not isolated: the package textworld plays it in this process.

    Needs the extra `textworld`. Task parameters: `game`, the path of the game's file, which has a
    .json file beside it. A checkpoint has the commands so far, which a restore repeats. The potential is the share of
    the highest score; that of a lost game is 0. Source: Côté et al. 2018, arXiv:1806.11532.
    """

    id = "agentgym/textworld-v1"
    axes = {}
    levels = ()
    _game: Any = None
    _latest: Any = None  # textworld's state after the last command

    @classmethod
    @override
    def unavailable_reason(cls) -> str:
        return "" if find_spec("textworld") else MISSING.format(install_command("textworld"))

    def begin(self) -> dict[str, Any]:
        self._start()
        return {"commands": []}

    def solved(self) -> bool:
        return bool(self._latest.won)

    def lost(self) -> bool:
        return bool(self._latest.lost)

    def nearness(self) -> float:
        if self.solved() or self.lost():
            return float(self.solved())
        return min((self._latest.score or 0) / (self._latest.max_score or 1), 0.99)

    def canonical(self) -> Any:
        """Return the facts of the game's state, or the commands so far if the game does not tell them."""
        facts = self._latest.facts
        return sorted(map(str, facts)) if facts else self.state

    @tool(inline=True)
    def act(self, command: str) -> str:
        """Do something, such as: look, inventory, go east, open the chest, take the lamp from the table."""
        self.check_open()
        command = " ".join(command.split())
        if not command or len(command) > MAX_COMMAND or not re.fullmatch(r"[\x20-\x7e]+", command):
            raise ToolError(f"Write a command of 1 to {MAX_COMMAND} plain characters.")
        if OF_FILES.search(command):
            raise ToolError("Saving, restoring and transcripts are switched off. Write another command.")
        text = self._do(command)
        self.state["commands"].append(command)
        self.settle()
        return text + ("\nYou have won." if self.solved() else "\nYou have lost." if self.lost() else "")

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Begin the game. Raises: TaskError if the game cannot be read, or textworld is not installed."""
        *opening, last = await super().reset(task, seed=seed)
        return [*opening, Message(last.role, f"{last.text}\n\n{_plain(self._latest.feedback)}".strip())]

    async def restore(self, task: Task, checkpoint: Any, *, seed: int) -> None:
        await self.reset(task, seed=seed)
        for command in checkpoint.data["state"]["commands"]:
            self._do(command)
            self.state["commands"].append(command)
        self.settle()

    async def close(self) -> None:
        game, self._game = self._game, None
        if game is not None:
            game.close()
        await super().close()

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

    def _start(self) -> None:
        try:
            import textworld
        except ImportError as error:
            raise self.refuse(MISSING.format(install_command("textworld"))) from error
        path = Path(self.parameter("game", str))
        infos = textworld.EnvInfos(won=True, lost=True, score=True, max_score=True, facts=True)
        if self._game is not None:
            self._game.close()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # its interpreter does not know the game; textworld follows the state
                self._game = textworld.start(str(path), infos)
                self._latest = self._game.reset()
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise self.refuse(f"the game {path} cannot be played: {type(error).__name__}: {error}"[:400]) from error

    def _do(self, command: str) -> str:
        self._latest, _, _ = self._game.step(command)
        return _plain(self._latest.feedback)


def _plain(text: str) -> str:
    """Return a game's text without its banner, its prompt, its status line and outer empty lines."""
    text = BANNER.sub("", text)
    return re.sub(r"\n>[^\n]*\Z", "", text.rstrip()).strip()
