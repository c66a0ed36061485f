"""Finds held-out tasks that leak into training: as an equal or similar training task, or by their words or canary in a
corpus.

comparison.py    `contamination` compares tasks by MinHash, `search_corpus` looks for runs of their words in a text
command.py       `agentgym tasks check`
"""

from .comparison import Contamination, contamination, search_corpus

__all__ = ["Contamination", "contamination", "search_corpus"]
