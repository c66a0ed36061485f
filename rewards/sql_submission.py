"""What an agent submitted, and the gold queries of its task: shared by the judges of text-to-SQL."""

from __future__ import annotations

import re

from agentgym import JudgeError
from agentgym.reward import EpisodeView

from .final_answer import final_call, last_words, submitted_text

MAX_SQL = 20_000
_FENCE = re.compile(r"```(?:sql)?\s*\n?(.*?)```", re.DOTALL | re.IGNORECASE)


def submitted_sql(episode: EpisodeView, argument: str = "sql") -> str | None:
    """The query an agent gave: the argument of its first final call that succeeded, else the last message's query.

    Returns: None if there is none, or if it is longer than any query that could run.
    """
    if final_call(episode) is not None:
        given = submitted_text(episode, argument)
        return given if given is not None and len(given) <= MAX_SQL else None
    text = (last_words(episode) or "")[: 2 * MAX_SQL]
    found = _FENCE.findall(text)
    query = (found[-1] if found else text).strip()
    return query if re.match(r"(?i)(select|with)\b", query) and len(query) <= MAX_SQL else None


def gold_sql(episode: EpisodeView, judge: str) -> str:
    """The task's gold query. Raises: JudgeError if it has none."""
    truth = episode.task.truth
    if not isinstance(truth, dict) or not isinstance(truth.get("sql"), str) or not truth["sql"].strip():
        raise JudgeError(f"{episode.task.id} has no truth['sql'], so nothing can be judged by {judge}.")
    gold: str = truth["sql"]
    return gold
