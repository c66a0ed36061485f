"""A pool of warm sandboxes: a backend on top of another backend, which hands out sandboxes made ahead of time.

pool.py        leases sandboxes and makes new ones        admission.py   decides which request is next, if there is room
warm_set.py    the ready sandboxes of one spec            headroom.py    free memory, descriptors and processes
lease.py       what callers hold: a sandbox, or a view    stats.py       figures for logs
"""

from agentgym.moved import moved_names

__getattr__ = moved_names(__name__)
