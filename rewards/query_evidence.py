"""`query_evidence`: whether a turn's queries ran, and whether they found the next value that the answer needs.

Each turn component sums to at most 1.0 over an episode: with the default weights, no number of queries is worth as much
as a right answer.
"""

from __future__ import annotations

from collections.abc import Mapping

from agentgym import Call, Result, Reward, Trajectory, Turn
from agentgym.reward import Components, comparison, fold_text

from .final_answer import gold_answers

MAX_ROWS, MAX_CELLS = 5, 24


class QueryEvidence(Reward):
    """Rewards each turn for the results of its queries; a result counts only once.

    The task's chain of needed values is `truth["evidence"]` followed by `truth["answer"]`; n is its length.

    Components of a turn:
        executed: 1/n for a turn with a new query that ran and returned a row; at most n times.
        evidence: 1/n for each newly reached link of the chain. A link is reached when a cell of a result is its value,
            or the value of a later link (a join skips links). Results of more than 5 rows or 24 cells do not count,
            because dumping a table is not finding a value; nor do values that the query itself contains.

    In a turn that earned nothing, both components are 0.0.
    """

    weights: Mapping[str, float] = {"executed": 0.1, "evidence": 0.3}

    def __init__(self, tool: str = "query", argument: str = "sql", separator: str = " | ") -> None:
        self.tool, self.argument, self.separator = tool, argument, separator

    def turn(self, turn: Turn, episode: Trajectory) -> Components:
        """Judge a turn. Raises: JudgeError if the task has no `truth["answer"]`."""
        chain = _chain(episode)
        earlier_queries: set[str] = set()
        reached = paid = 0
        before = [past for past in episode.turns if past.index < turn.index]
        for current in (*before, turn):
            reached_before, paid_before = reached, paid
            new = False
            for call, result in zip(current.calls, current.results, strict=False):
                query = fold_text(str(call.arguments.get(self.argument, ""))).rstrip("; ")
                if not self._ran(call, result) or query in earlier_queries:
                    continue
                earlier_queries.add(query)
                new = True
                reached = max(reached, self._furthest(result, query, chain, reached))
            paid = min(paid + new, len(chain))
        return {"executed": (paid - paid_before) / len(chain), "evidence": (reached - reached_before) / len(chain)}

    def _ran(self, call: Call, result: Result) -> bool:
        return call.name == self.tool and result.ok and result.content not in ("", "[no rows]")

    def _furthest(self, result: Result, query: str, chain: list[list[str]], reached: int) -> int:
        """Return the number of links reached after this result; `reached`, the number before it, if the result has
        nothing new.
        """
        rows = str(result.content).split("\n")
        cells = [cell for row in rows for cell in row.split(self.separator)]
        if len(rows) > MAX_ROWS or len(cells) > MAX_CELLS:
            return reached
        for link in range(len(chain), reached, -1):
            values = [value for value in chain[link - 1] if fold_text(value) not in query]
            if any(comparison.same_answer(cell, value) for cell in cells for value in values):
                return link
        return reached


def _chain(episode: Trajectory) -> list[list[str]]:
    """Return, for each link, the values that reach it; those of the last link are all the right answers."""
    answers = gold_answers(episode, "query_evidence")
    return [*([str(value)] for value in episode.task.truth.get("evidence", ())), answers]
