"""A pool of warm sandboxes: a backend over another backend, which hands out sandboxes that are made ahead of time.

pool.py        leases sandboxes and makes new ones        admission.py   decides who comes next, if there is room
warm_set.py    the ready sandboxes of one spec            headroom.py    free memory, descriptors and processes
lease.py       a sandbox while somebody holds it          fair_queue.py  turns between tenants
stats.py       figures for logs                           tenant.py      the pool as the backend of one tenant
"""

from agentgym.sandbox.pool.pool import Pool
from agentgym.sandbox.pool.stats import PoolStats

__all__ = ["Pool", "PoolStats"]
