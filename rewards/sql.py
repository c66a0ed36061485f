"""`sql`: what `agentgym/sql-v1` is judged by unless a recipe says otherwise."""

from __future__ import annotations

from agentgym import Combined

from .answer_match import AnswerMatch
from .query_evidence import QueryEvidence


class SqlReward(Combined):
    """The answer decides (`success`, 1.0); queries that ran and evidence found help (0.1 and 0.3 at most)."""

    def __init__(self) -> None:
        super().__init__(AnswerMatch(), QueryEvidence())
