"""Databases behind tools, one module an engine: read-only questions, text to SQL, and changes to a database."""

from .duck import SqlDuckDb
from .environment import Sql, SqlQuery
from .inprocess import SqlInProcess
from .postgres import SqlPostgres
from .writing import SqlWrite

__all__ = ["Sql", "SqlDuckDb", "SqlInProcess", "SqlPostgres", "SqlQuery", "SqlWrite"]
