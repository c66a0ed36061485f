"""The task sets `text/<world>-v1`: one for each text world, drawn from the world's own generator. See CARD.md."""

from .task_set import number_guess

__all__ = ["number_guess"]
