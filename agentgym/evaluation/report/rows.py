"""Lists of episodes as plain data for a page: short rows, and the group of one task with the credit of every turn."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym.evaluation.report.credit_lines import LoggedCredit
from agentgym.messages import StopReason
from agentgym.text import visible


def listed(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return summaries for a page's list, with verdicts and failures by kind. Ids stay unchanged."""
    return [_row(row) for row in rows]


def siblings(group: Sequence[Mapping[str, Any]], credit: Mapping[str, LoggedCredit]) -> list[dict[str, Any]]:
    """Return the episodes of one task and run, each with its turns' advantages, or None without any."""
    given = {name: list(logged.advantages) for name, logged in credit.items()}
    return [row | {"credit": given.get(row["id"])} for row in listed(group)]


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    data = dict(row)
    data["verdict"] = _verdict(row)
    data["failures"] = json.loads(row["failures"]) if row["failures"] else {}
    data["tags"] = [visible(tag) for tag in json.loads(row["tags"])] if row["tags"] else []
    data["shown"] = visible(row["id"])
    return data


def _verdict(row: Mapping[str, Any]) -> str:
    """Return the verdict on an episode from its summary: as `verdict` in agentgym.evaluation.report.episode_data."""
    if row["stop"] is None:
        return "running"
    if StopReason(row["stop"]).failed:
        return "failed"
    if row["success"] is None:
        return "unjudged"
    return "solved" if row["success"] >= 1 else "unsolved"
