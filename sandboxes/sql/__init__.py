"""Databases behind tools, one module an engine: read-only questions, text to SQL, and changes to a database."""

from .environment import Sql, SqlQuery
from .inprocess import SqlInProcess
from .writing import SqlWrite

__all__ = ["Sql", "SqlInProcess", "SqlQuery", "SqlWrite"]
