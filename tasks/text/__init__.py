"""The task sets of the text games, `text/<game>-v1`: twelve games, each in many sizes. See CARD.md."""

from .craft import craft
from .doors import doors
from .locks import locks
from .task_set import (
    adventure,
    countdown,
    fiction,
    frozen_lake,
    number_guess,
    sokoban,
    sudoku,
    twenty_questions,
    wordle,
)
from .written_games import write_game

__all__ = [
    "adventure",
    "countdown",
    "craft",
    "doors",
    "fiction",
    "frozen_lake",
    "locks",
    "number_guess",
    "sokoban",
    "sudoku",
    "twenty_questions",
    "wordle",
    "write_game",
]
