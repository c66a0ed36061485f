"""`tried_query`: whether the agent has run the query that it submits, and seen its rows."""

from __future__ import annotations

from collections.abc import Mapping

from agentgym import Reward, Trajectory
from agentgym.reward import Components

from .sql_submission import submitted_sql


class TriedQuery(Reward):
    """Outcome component `tried`: 1.0 if the submitted query, apart from white space, has run in an earlier turn.

    As the `by` of a gate that opens `success`, it pays for answers that the agent has seen to run, so that an error of
    the database is corrected and not submitted. Weight 0.1.

    Args:
        tool, argument: the tool and its argument that take trial queries.
    Source: ours.
    """

    weights: Mapping[str, float] = {"tried": 0.1}

    def __init__(self, tool: str = "query", argument: str = "sql") -> None:
        self.tool, self.argument = tool, argument

    def outcome(self, episode: Trajectory) -> Components:
        submitted = submitted_sql(episode)
        if submitted is None:
            return {"tried": 0.0}
        tried = {
            _plain(call.arguments.get(self.argument))
            for turn in episode.turns[:-1]
            for call, result in zip(turn.calls, turn.results, strict=False)
            if call.name == self.tool and result.ok and isinstance(call.arguments, Mapping)
        }
        return {"tried": float(_plain(submitted) in tried)}


def _plain(sql: object) -> str:
    """Return a query with single spaces and without the semicolon at its end."""
    return " ".join(str(sql).split()).rstrip("; ")
