"""Apps over one store of records: documented APIs, called one by one or from code. See docs/environments/apps.md.

environment.py  `agentgym/apps-v1` and `agentgym/apps-code-v1`
guest_client.py the client that code in the sandbox uses
The other files are an app or two each.
"""

from functools import partial

from agentgym import make
from agentgym.teams import with_delegation

from ..record_app import StoreApp
from ..record_store import TableSchema
from .environment import Apps, AppsCode

__all__ = ["Apps", "AppsCode", "StoreApp", "TableSchema", "team"]

team = with_delegation(partial(make, "agentgym/apps-v1"))
"""`agentgym/apps-team-v1`: a planner, and executors who use the apps."""
