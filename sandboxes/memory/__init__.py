"""Memory: sessions are read one at a time and forgotten; a question is answered from the agent's notes.

bank.py         the entries, and how they are searched
environment.py  `agentgym/memory-v1`
"""

from .environment import Memory

__all__ = ["Memory"]
