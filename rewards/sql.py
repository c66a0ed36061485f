"""`sql`: the default reward of `agentgym/sql-v1`."""

from __future__ import annotations

from agentgym import Combined

from .answer_match import AnswerMatch
from .query_evidence import QueryEvidence


class SqlReward(Combined):
    """The answer (`success`, 1.0), with small rewards for queries that ran and evidence found (at most 0.1 and 0.3)."""

    def __init__(self) -> None:
        super().__init__(AnswerMatch(), QueryEvidence())
