"""Databases behind tools, one module an engine: read-only questions, text to SQL, and changes to a database."""

from .environment import Sql, SqlQuery
from .inprocess import SqlInProcess

__all__ = ["Sql", "SqlInProcess", "SqlQuery"]
