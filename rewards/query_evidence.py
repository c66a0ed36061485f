"""`query_evidence`: did a turn's queries run, and did they bring the next value the answer needs?

Turn components, each bounded over a whole episode by 1.0, so that with the weights below no amount of
querying is worth as much as a right answer.
"""

from __future__ import annotations

from collections.abc import Mapping

from agentgym import Call, JudgeError, Result, Reward
from agentgym.reward import Components, EpisodeView, TurnView

from .answer_match import same_answer

MAX_ROWS, MAX_CELLS = 5, 24


class QueryEvidence(Reward):
    """Pays each turn for what its queries brought, never twice for the same.

    The task's chain of needed values is `truth["evidence"]` followed by `truth["answer"]`; n is its length.

    Components of a turn:
        executed: 1/n for a turn with a query that ran, gave a row, and is new in the episode; paid n times at most.
        evidence: 1/n for each link of the chain reached, when a result shows that value or a later one (a
            join skips links) as a whole cell. A result of more than 5 rows or 24 cells shows nothing: who
            dumps a table has not found the value. A value that the query itself spells out is not found either.

    A turn that earned nothing has 0.0, because that is known; only the tasks without truth are not judged.
    """

    weights: Mapping[str, float] = {"executed": 0.1, "evidence": 0.3}

    def __init__(self, tool: str = "query", argument: str = "sql", separator: str = " | ") -> None:
        self.tool, self.argument, self.separator = tool, argument, separator

    def turn(self, turn: TurnView, episode: EpisodeView) -> Components:
        """Raises: JudgeError if the task has no `truth["answer"]`."""
        chain = _chain(episode)
        asked: set[str] = set()
        reached = paid = 0
        before = [past for past in episode.turns if past.index < turn.index]
        for played in (*before, turn):
            reached_before, paid_before = reached, paid
            new = False
            for call, result in zip(played.calls, played.results, strict=False):
                query = " ".join(str(call.arguments.get(self.argument, "")).casefold().split()).rstrip("; ")
                if not self._ran(call, result) or query in asked:
                    continue
                asked.add(query)
                new = True
                reached = max(reached, self._furthest(result, query, chain, reached))
            paid = min(paid + new, len(chain))
        return {"executed": (paid - paid_before) / len(chain), "evidence": (reached - reached_before) / len(chain)}

    def _ran(self, call: Call, result: Result) -> bool:
        return call.name == self.tool and result.ok and result.content not in ("", "[no rows]")

    def _furthest(self, result: Result, query: str, chain: list[str], reached: int) -> int:
        """How many links of the chain are known after this result; `reached` if it shows nothing new."""
        rows = str(result.content).split("\n")
        cells = [cell for row in rows for cell in row.split(self.separator)]
        if len(rows) > MAX_ROWS or len(cells) > MAX_CELLS:
            return reached
        for place in range(len(chain), reached, -1):
            value = chain[place - 1]
            if value.casefold() not in query and any(same_answer(cell, value) for cell in cells):
                return place
        return reached


def _chain(episode: EpisodeView) -> list[str]:
    truth = episode.task.truth
    if not isinstance(truth, dict) or "answer" not in truth:
        raise JudgeError(f"{episode.task.id} has no truth['answer'], so no query can be judged by query_evidence.")
    return [*map(str, truth.get("evidence", ())), str(truth["answer"])]
