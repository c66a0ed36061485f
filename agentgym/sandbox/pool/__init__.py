"""Sandboxes kept ready, on loan: a backend around another one.

pool.py        hands out and takes back                   admission.py   who comes next, and whether there is room
shelf.py       what lies ready for one spec               room.py        memory, descriptors, processes of the machine
lease.py       a sandbox in one holder's hands            fair_queue.py  turns between askers
stats.py       figures for logs                           owned.py       the pool as one owner's backend
"""

from agentgym.sandbox.pool.pool import Pool
from agentgym.sandbox.pool.stats import PoolStats

__all__ = ["Pool", "PoolStats"]
