"""The submitted query and the gold query of an episode, for all text-to-SQL rewards."""

from __future__ import annotations

import re

from agentgym import JudgeError, Trajectory

from .final_answer import final_call, last_words, submitted_text

MAX_SQL = 20_000
_FENCE = re.compile(r"```(?:sql)?\s*\n?(.*?)```", re.DOTALL | re.IGNORECASE)


def submitted_sql(episode: Trajectory, argument: str = "sql") -> str | None:
    """Return the query in the first successful final call or, without such a call, in the last message. A ```sql fence
    around it is removed.

    Returns: None without a query, or if it is longer than MAX_SQL.
    """
    if final_call(episode) is not None:
        query = submitted_text(episode, argument)
        if query is not None and query.lstrip().startswith("```") and (blocks := _FENCE.findall(query[: 2 * MAX_SQL])):
            query = blocks[-1].strip()
        return query if query is not None and len(query) <= MAX_SQL else None
    text = (last_words(episode) or "")[: 2 * MAX_SQL]
    blocks = _FENCE.findall(text)
    query = (blocks[-1] if blocks else text).strip()
    return query if re.match(r"(?i)(select|with)\b", query) and len(query) <= MAX_SQL else None


def gold_sql(episode: Trajectory, judge: str) -> str:
    """Return the task's gold query. Raises: JudgeError if it has none."""
    truth = episode.task.truth
    if not isinstance(truth, dict) or not isinstance(truth.get("sql"), str) or not truth["sql"].strip():
        raise JudgeError(
            f"{episode.task.id} has no truth['sql'], which {judge} compares with. Give the task its gold query."
        )
    gold: str = truth["sql"]
    return gold
