"""Runs inside a sandbox: plays a game of TextWorld by the package textworld."""

from __future__ import annotations

import warnings
from typing import Any


class Unplayable(ValueError):
    """The file is not a game that textworld can play."""

    for_agent = True


class TextworldGame:
    """A game in play."""

    def __init__(self, path: str) -> None:
        self._path, self._count = path, 0
        self._game: Any = None
        self._state: Any = None

    def play(self, commands: list[str]) -> dict[str, object]:
        """Play those of all commands so far that have not been played here. Returns: the state after them.

        Raises: Unplayable.
        """
        if self._game is None:
            self._start()
        for command in commands[self._count :]:
            self._state, _, _ = self._game.step(command)
        self._count = len(commands)
        state = self._state
        return {
            "text": state.feedback,
            "won": bool(state.won),
            "lost": bool(state.lost),
            "score": (state.score or 0) / (state.max_score or 1),
            "facts": sorted(map(str, state.facts or ())),
        }

    def _start(self) -> None:
        import textworld

        infos = textworld.EnvInfos(won=True, lost=True, score=True, max_score=True, facts=True)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # its interpreter does not know the game; textworld follows the state
                self._game = textworld.start(self._path, infos)
                self._state = self._game.reset()
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Unplayable(f"{type(error).__name__}: {error}"[:400]) from error
