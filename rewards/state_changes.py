"""`state_changes`: whether exactly the requested changes were made, and the answer is right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentgym import JudgeError, Reward, Trajectory
from agentgym.reward import SUCCESS, Components, comparison

from .final_answer import counts_of, final_call, final_record
from .told_values import untold


class StateChanges(Reward):
    """For environments over a store of records, such as `agentgym/apps-v1` and `agentgym/service-v1`.

    The result or reply that ends the episode contains the digests of all changes; only the environment can write it.
    `truth["changes"]` lists the digests of the requested changes; `truth["answer"]`, if given, is the answer to the
    question; `truth["told"]`, if given, lists values that the agent must have said without listing many others of their
    kind (see `told_values`). Outcome components, of which only `success` has a weight by default:

    - `success`: 1.0 if exactly these changes were made, the answer is right, and every value was told.
    - `progress`: requested changes that were made, as a share of all changes that were requested or made; 1.0 if there
      are none.
    - `missing_changes`, `collateral_changes`: number of changes that were requested but not made, or made but not
    requested.
    - every number of the record that the environment wrote: the agent's use of the APIs, and the user's behaviour
      (names with `user_`).

    An episode without a record, because a budget ended it, has only `success`, 0.0.

    Source: judging by changes of the state, including collateral changes: AppWorld, Trivedi et al. 2024,
        arXiv:2407.18901, section 4; final state and told values: tau-bench, Yao et al. 2024, arXiv:2406.12045,
        section 3.
    """

    weights: Mapping[str, float] = {}

    def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode.

        Raises: JudgeError if the task has no list truth["changes"].
        """
        truth = episode.task.truth
        if not isinstance(truth, dict) or not isinstance(truth.get("changes"), list | tuple):
            raise JudgeError(f"{episode.task.id} needs truth['changes'] as a list, so that state_changes can judge it.")
        if (record := record_of(episode)) is None:
            return {SUCCESS: 0.0}
        counts = counts_of(record, "changes")
        if record["changes"] is None:  # too many changes to list
            return {SUCCESS: 0.0, **counts}
        expected, changes = set(truth["changes"]), set(record["changes"])
        right = expected == changes and self._answered(episode, truth) and self._has_told(episode, truth)
        either = expected | changes
        return {
            SUCCESS: float(right),
            "progress": len(expected & changes) / len(either) if either else 1.0,
            "missing_changes": float(len(expected - changes)),
            "collateral_changes": float(len(changes - expected)),
            **counts,
        }

    def weights_for(self, episode: Trajectory) -> Mapping[str, float]:
        """Return the weights: 0 for everything but `success`, unless a subclass changes them."""
        return {**dict.fromkeys(episode.outcome.keys() - {SUCCESS}, 0.0), **self.weights}

    def _answered(self, episode: Trajectory, truth: Mapping[str, Any]) -> bool:
        if "answer" not in truth:
            return True
        final = final_call(episode)
        answer = final[0].arguments.get("answer") if final else None
        return isinstance(answer, str) and comparison.same_answer(answer, truth["answer"])

    def _has_told(self, episode: Trajectory, truth: Mapping[str, Any]) -> bool:
        spoken = [turn.message.text for turn in episode.turns if not turn.calls]
        return not untold(truth.get("told", ()), spoken)


def record_of(episode: Trajectory) -> dict[str, Any] | None:
    """Return the record in the result or reply that ended the episode; None without a readable one."""
    record = final_record(episode, "changes")
    return record if record is not None and _is_read(record["changes"]) else None


def _is_read(changes: Any) -> bool:
    return changes is None or (isinstance(changes, list) and all(isinstance(digest, str) for digest in changes))
