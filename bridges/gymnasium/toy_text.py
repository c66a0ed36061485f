"""Gymnasium's toy-text environments in words: their rules, actions, observations and success conditions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ActionText:
    """The description of an environment in words.

    Attributes:
        actions: names in the order of their numbers.
        describe: returns a description of the environment and its observation.
        rules: the rules, which the agent reads at the start.
        solved: returns success from the sum of rewards, the last reward, and whether the episode terminated.
    """

    actions: tuple[str, ...]
    describe: Callable[[Any, Any], str]
    rules: str = ""
    solved: Callable[[float, float, bool], bool] = lambda total, last, terminated: terminated and last > 0


def _lake(env: Any, seen: Any) -> str:
    rows = [[square.decode() for square in row] for row in env.unwrapped.desc]
    row, column = divmod(int(seen), len(rows[0]))
    rows[row][column] = "P" if rows[row][column] in "SF" else f"{rows[row][column]} (you are here)"
    return "\n".join("".join(squares) for squares in rows)


def _cliff(env: Any, seen: Any) -> str:
    row, column = divmod(int(seen), 12)
    rows = [["_"] * 12 for _ in range(3)] + [["S", *"O" * 10, "G"]]
    rows[row][column] = "P"
    return "\n".join("".join(squares) for squares in rows)


_PLACES = ("the red stand R", "the green stand G", "the yellow stand Y", "the blue stand B", "in your taxi")


def _taxi(env: Any, seen: Any) -> str:
    row, column, passenger, target = env.unwrapped.decode(int(seen))
    rows = [[square.decode() for square in squares] for squares in env.unwrapped.desc]
    rows[1 + row][2 * column + 1] = "T"
    where = _PLACES[passenger] if passenger == 4 else f"at {_PLACES[passenger]}"
    drawn = "\n".join("".join(squares) for squares in rows)
    return f"{drawn}\nThe passenger is {where} and wants to {_PLACES[target]}."


def _hand(env: Any, seen: Any) -> str:
    total, dealer, ace = seen
    return f"Your cards: {total}{', with an ace as 11' if ace else ''}. The dealer shows {dealer}."


_WALK = "P is you. You may do several actions at once."
_LAKE = ActionText(
    ("left", "down", "right", "up"),
    _lake,
    f"Walk over the frozen lake to G. F is ice, H a hole to fall into, S the start. The ice may be slippery. {_WALK}",
)
TOY_TEXT: Mapping[str, ActionText] = {
    "FrozenLake": _LAKE,
    "FrozenLake8x8": _LAKE,
    "CliffWalking": (
        _CLIFF := ActionText(
            ("up", "right", "down", "left"),
            _cliff,
            "Walk to G. O is a cliff: who steps there starts again at S, for 100 points. Each step costs a point. "
            + _WALK,
            lambda total, last, terminated: terminated,
        )
    ),
    "CliffWalkingSlippery": _CLIFF,
    "Taxi": ActionText(
        ("south", "north", "east", "west", "pickup", "dropoff"),
        _taxi,
        "Drive the taxi T to the passenger, pick them up, drive to where they want to go, and drop them off. You "
        "cannot pass |. Each action costs a point, a wrong pickup or dropoff ten. You may do several actions at once.",
        lambda total, last, terminated: terminated,
    ),
    "Blackjack": ActionText(
        ("stick", "hit"),
        _hand,
        "Play a hand of Blackjack: come nearer to 21 than the dealer, not beyond. Take a card (hit) or stay (stick).",
    ),
}
"""Descriptions by environment id without version."""
