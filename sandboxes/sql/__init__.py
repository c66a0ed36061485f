"""Databases behind tools, a module per engine: questions, text to SQL, changes, and sessions of these."""

from .duck import SqlDuckDb
from .environment import Sql, SqlQuery
from .inprocess import SqlInProcess
from .postgres import SqlPostgres
from .session import SqlSession, SqlSessionInProcess
from .writing import SqlWrite

__all__ = [
    "Sql",
    "SqlDuckDb",
    "SqlInProcess",
    "SqlPostgres",
    "SqlQuery",
    "SqlSession",
    "SqlSessionInProcess",
    "SqlWrite",
]
