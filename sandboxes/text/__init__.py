"""Text worlds: small games in memory with exact states, generators of puzzles that can be solved, and oracles."""

from .number_guess import NumberGuess
from .world import Axis, Puzzle, TextWorld

__all__ = ["Axis", "NumberGuess", "Puzzle", "TextWorld"]
