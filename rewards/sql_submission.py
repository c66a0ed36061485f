"""What an agent submitted, and the gold queries of its task: shared by the judges of text-to-SQL."""

from __future__ import annotations

import re

from agentgym import JudgeError
from agentgym.messages import StopReason
from agentgym.reward import EpisodeView

MAX_SQL = 20_000
_FENCE = re.compile(r"```(?:sql)?\s*\n?(.*?)```", re.DOTALL | re.IGNORECASE)


def submitted_sql(episode: EpisodeView, argument: str = "sql") -> str | None:
    """The query an agent gave: the argument of its first final call that succeeded, else the last message's query.

    Returns: None if there is none, or if it is longer than any query that could run.
    """
    for turn in episode.turns:
        for call, result in zip(turn.calls, turn.results, strict=False):
            if result.final and result.ok:
                given = call.arguments.get(argument)
                return given if isinstance(given, str) and len(given) <= MAX_SQL else None
    if episode.turns and episode.stop_reason is StopReason.ANSWERED and not episode.turns[-1].calls:
        text: str = episode.turns[-1].message.text[: 2 * MAX_SQL]
        found = _FENCE.findall(text)
        query = (found[-1] if found else text).strip()
        if re.match(r"(?i)(select|with)\b", query) and len(query) <= MAX_SQL:
            return query
    return None


def gold_sql(episode: EpisodeView, judge: str) -> str:
    """The task's gold query. Raises: JudgeError if it has none."""
    truth = episode.task.truth
    if not isinstance(truth, dict) or not isinstance(truth.get("sql"), str) or not truth["sql"].strip():
        raise JudgeError(f"{episode.task.id} has no truth['sql'], so nothing can be judged by {judge}.")
    gold: str = truth["sql"]
    return gold
