"""Held-out tasks that leak into training: equal or nearly equal tasks, pieces of a corpus, canaries.

comparison.py    `contamination` compares tasks by MinHash, `search_corpus` looks for runs of their words in a text
command.py       `agentgym tasks check`
"""

from .comparison import Contamination, contamination, search_corpus

__all__ = ["Contamination", "contamination", "search_corpus"]
