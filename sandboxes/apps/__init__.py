"""Apps over one store of records: documented APIs, called one by one or from code. See docs/environments/apps.md.

store.py        the records, shared between episodes until an episode changes one
app.py          what an app is: tables, and APIs with their documentation
base.py         the base of the environments: store, counters, potential, and the result that is judged
environment.py  `agentgym/apps-v1` and `agentgym/apps-code-v1`
guest_client.py the client that code in the sandbox uses
The other files are an app or two each.
"""

from .app import StoreApp
from .environment import Apps, AppsCode
from .store import TableSchema

__all__ = ["Apps", "AppsCode", "StoreApp", "TableSchema"]
