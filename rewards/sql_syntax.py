"""`sql_syntax`: whether the submission is one SELECT in the dialect of the environment."""

from __future__ import annotations

from collections.abc import Mapping

from agentgym import Reward, Trajectory
from agentgym.reward import Components

from .sql_parse import dialect_of, parse_select
from .sql_submission import gold_sql, submitted_sql


class SqlSyntax(Reward):
    """Outcome component `syntax`: 1.0 if the submitted query parses as exactly one SELECT, else 0.0. Weight 0.1.

    Source: the syntax check of Reasoning-SQL, arXiv:2503.23157, by a parser rather than by execution.
    """

    weights: Mapping[str, float] = {"syntax": 0.1}

    def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode.

        Raises: JudgeError if the task has no gold query; MissingExtraError without the extra `sql`.
        """
        gold_sql(episode, "sql_syntax")
        submitted = submitted_sql(episode)
        dialect = dialect_of(episode.task.environment)
        return {"syntax": float(submitted is not None and parse_select(submitted, dialect) is not None)}
