"""The table of players: one function for each way of playing, under the names of the tasks that it solves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from .page import Page

Player = Callable[[Page], Awaitable[None]]
PLAYERS: dict[str, Player] = {}


def plays(*names: str) -> Callable[[Player], Player]:
    """Register a player for tasks. Raises: ValueError if a task has one."""

    def keep(player: Player) -> Player:
        for name in names:
            if name in PLAYERS:
                raise ValueError(f"{name} has two players: {PLAYERS[name].__name__} and {player.__name__}.")
            PLAYERS[name] = player
        return player

    return keep
