"""`sql_schema_linking`: whether the submitted query uses the tables and columns of the gold query."""

from __future__ import annotations

from collections.abc import Mapping

from agentgym import JudgeError, Reward, Trajectory
from agentgym.reward import Components

from .sql_ngrams import jaccard
from .sql_parse import dialect_of, parse_select, schema_items
from .sql_submission import gold_sql, submitted_sql


class SqlSchemaLinking(Reward):
    """Outcome component `schema_linking`, 0 to 1: Jaccard similarity of the named tables and columns. Weight 0.2.

    Names that the gold query does not use lower the score. `*` names no column.

    Source: the schema-linking reward of Reasoning-SQL, arXiv:2503.23157.
    """

    weights: Mapping[str, float] = {"schema_linking": 0.2}

    def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode.

        Raises: JudgeError if the gold query is missing or cannot be parsed; MissingExtraError without sqlglot.
        """
        gold, dialect = gold_sql(episode, "sql_schema_linking"), dialect_of(episode.task.environment)
        tree = parse_select(gold, dialect)
        if tree is None:
            raise JudgeError(f"{episode.task.id}: the gold query {gold[:80]!r} cannot be parsed as {dialect}.")
        submitted = parse_select(submitted_sql(episode) or "", dialect)
        return {
            "schema_linking": jaccard(set(schema_items(tree)), set(schema_items(submitted)) if submitted else set())
        }
