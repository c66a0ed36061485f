"""Text worlds: small games in memory with exact states, generators of puzzles that can be solved, and oracles."""

from .adventure import Adventure
from .countdown import Countdown
from .frozen_lake import FrozenLake
from .number_guess import NumberGuess
from .sokoban import Sokoban
from .sudoku import Sudoku
from .twenty_questions import TwentyQuestions
from .wordle import Wordle
from .world import Axis, Puzzle, TextWorld

__all__ = [
    "Adventure",
    "Axis",
    "Countdown",
    "FrozenLake",
    "NumberGuess",
    "Puzzle",
    "Sokoban",
    "Sudoku",
    "TextWorld",
    "TwentyQuestions",
    "Wordle",
]
