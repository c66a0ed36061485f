"""The table of players: one function for each way of playing, under the names of the tasks that it solves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from .page import Page

Player = Callable[[Page], Awaitable[None]]
PLAYERS: dict[str, Player] = {}
_ENVIRONMENTS: dict[str, str] = {}


def plays(*names: str, environment: str = "agentgym/web-v1") -> Callable[[Player], Player]:
    """Register a player for tasks, and the environment whose tools it uses. Raises: ValueError if a task has one."""

    def keep(player: Player) -> Player:
        for name in names:
            if name in PLAYERS:
                raise ValueError(f"{name} has two players: {PLAYERS[name].__name__} and {player.__name__}.")
            PLAYERS[name], _ENVIRONMENTS[name] = player, environment
        return player

    return keep


def environment_of(name: str) -> str:
    """Return the environment in which a task is played; `agentgym/web-v1` for a task without a player."""
    return _ENVIRONMENTS.get(name, "agentgym/web-v1")
