"""`sql_partial`: execution match, with partial rewards for a policy that is not yet able to be right."""

from __future__ import annotations

from agentgym import Combined

from .sql_execution import SqlExecution
from .sql_exploration import SqlExploration
from .sql_ngrams import SqlNgrams
from .sql_schema_linking import SqlSchemaLinking
from .sql_syntax import SqlSyntax


class SqlPartial(Combined):
    """Execution match (1.0, and 0.1 for running), syntax 0.1, n-grams 0.2, schema linking 0.2, exploration 0.2.

    Together the partial rewards stay below the reward of a right query. Needs the extra `sql`.

    Source: Reasoning-SQL, arXiv:2503.23157 (partial rewards), ReEx-SQL, arXiv:2505.12768 (exploration); the weights are
        our choice.
    """

    def __init__(self) -> None:
        super().__init__(SqlExecution(), SqlSyntax(), SqlNgrams(), SqlSchemaLinking(), SqlExploration())
