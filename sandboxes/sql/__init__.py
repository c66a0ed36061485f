"""`agentgym/sql-v1`: an SQLite database in a sandbox, behind tools to look at it, query it and answer."""

from .environment import Sql

__all__ = ["Sql"]
