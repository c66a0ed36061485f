"""The task sets of the text games, `text/<game>-v1`: ten games, each in many sizes. See CARD.md."""

from .doors import doors
from .locks import locks
from .task_set import adventure, countdown, frozen_lake, number_guess, sokoban, sudoku, twenty_questions, wordle

__all__ = [
    "adventure",
    "countdown",
    "doors",
    "frozen_lake",
    "locks",
    "number_guess",
    "sokoban",
    "sudoku",
    "twenty_questions",
    "wordle",
]
