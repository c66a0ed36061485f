"""The task sets `text/<world>-v1`: one for each text world, drawn from the world's own generator. See CARD.md."""

from .task_set import adventure, countdown, frozen_lake, number_guess, sokoban, sudoku, twenty_questions, wordle

__all__ = ["adventure", "countdown", "frozen_lake", "number_guess", "sokoban", "sudoku", "twenty_questions", "wordle"]
