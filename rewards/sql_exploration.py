"""`sql_exploration`: whether a turn's trial queries look at the part of the database that the answer needs."""

from __future__ import annotations

from collections.abc import Mapping

from agentgym import JudgeError, Reward, Trajectory, Turn
from agentgym.reward import Components

from .sql_parse import dialect_of, parse_select, schema_items
from .sql_submission import gold_sql


class SqlExploration(Reward):
    """Turn component `exploration`: the share of the gold query's tables and columns that this turn queries first.

    A query counts if it ran and if at least half of its tables and columns are in the gold query, so that listing
    everything gains nothing. Nothing is rewarded twice: an episode's turns sum to at most 1.0. Weight 0.2.

    Args:
        tool, argument: the tool and its argument that take trial queries.
    Source: the idea of the exploration reward of ReEx-SQL, arXiv:2505.12768; the amount is our choice.
    """

    weights: Mapping[str, float] = {"exploration": 0.2}

    def __init__(self, tool: str = "query", argument: str = "sql") -> None:
        self.tool, self.argument = tool, argument

    def turn(self, turn: Turn, episode: Trajectory) -> Components:
        """Judge a turn.

        Raises: JudgeError if the gold query is missing or cannot be parsed; MissingExtraError without sqlglot.
        """
        gold, dialect = gold_sql(episode, "sql_exploration"), dialect_of(episode.task.environment)
        tree = parse_select(gold, dialect)
        needed = schema_items(tree) if tree is not None else frozenset()
        if not needed:
            raise JudgeError(
                f"{episode.task.id}: in the gold query {gold[:80]!r}, read as {dialect}, no table or column was found. "
                "Give the task a gold query that is one SELECT from a table."
            )
        before: set[str] = set()
        for past in episode.turns:
            if past.index < turn.index:
                before |= self._queried_items(past, needed, dialect)
        return {"exploration": len(self._queried_items(turn, needed, dialect) - before) / len(needed)}

    def _queried_items(self, turn: Turn, needed: frozenset[str], dialect: str) -> set[str]:
        queried: set[str] = set()
        for call, result in zip(turn.calls, turn.results, strict=False):
            sql = call.arguments.get(self.argument) if isinstance(call.arguments, Mapping) else None
            if call.name != self.tool or not result.ok or not isinstance(sql, str):
                continue
            tree = parse_select(sql, dialect)
            items = schema_items(tree) if tree is not None else frozenset()
            if 2 * len(items & needed) >= len(items):
                queried |= items & needed
        return queried
