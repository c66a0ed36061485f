"""Apps over one store of records: documented APIs, called one by one or from code.

environment.py  `agentgym/apps-v1` and `agentgym/apps-code-v1`
team.py         `agentgym/apps-team-v1`, for a planner and executors
guest_client.py the client that code in the sandbox uses
Each other file holds one or two apps.
"""

from ..record_app import StoreApp
from ..record_store import TableSchema
from .environment import Apps, AppsCode
from .team import AppsTeam

__all__ = ["Apps", "AppsCode", "AppsTeam", "StoreApp", "TableSchema"]
