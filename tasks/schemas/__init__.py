"""Task sets over generated databases of many domains: questions to answer with a query, and changes to make.

See CARD.md.
"""

from .database import database
from .oracle import changer, oracle
from .task_set import (
    changes,
    changes_postgres,
    schemas,
    schemas_duckdb,
    schemas_inprocess,
)

__all__ = [
    "changer",
    "changes",
    "changes_postgres",
    "database",
    "oracle",
    "schemas",
    "schemas_duckdb",
    "schemas_inprocess",
]
