"""Text environments: small games in memory with exact states, generators of solvable puzzles, and oracles."""

from .adventure import Adventure
from .base import Axis, Puzzle, TextEnvironment
from .countdown import Countdown
from .craft import Craft
from .doors import Doors
from .fiction import Fiction
from .frozen_lake import FrozenLake
from .locks import Locks
from .number_guess import NumberGuess
from .sokoban import Sokoban
from .sudoku import Sudoku
from .twenty_questions import TwentyQuestions
from .wordle import Wordle

__all__ = [
    "Adventure",
    "Axis",
    "Countdown",
    "Craft",
    "Doors",
    "Fiction",
    "FrozenLake",
    "Locks",
    "NumberGuess",
    "Puzzle",
    "Sokoban",
    "Sudoku",
    "TextEnvironment",
    "TwentyQuestions",
    "Wordle",
]
