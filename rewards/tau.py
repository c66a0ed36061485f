"""`tau`: whether a tau-bench domain's final data are right, and the required information was said."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agentgym import JudgeError, Message, Reward, Trajectory
from agentgym.reward import SUCCESS, Components, fold_text

from .final_answer import counts_of, final_record


class TauBench(Reward):
    """For `agentgym/tau-v1`: `truth["state"]` is the digest of the right data, `truth["outputs"]` the texts that must
    be said.

    Outcome component `success`, 1.0 if the final data have this digest, and each output occurs in a message of the
    agent without calls (ignoring case and commas); an episode that a budget ended has failed. Components of weight 0:
    `data_right` and `outputs_right`; the user's behaviour, with prefix `user_`.

    Source: tau-bench, Yao et al. 2024, arXiv:2406.12045, section 3. An output counts wherever it occurs, as published:
        check that an agent does not simply list numbers before you trust its score.
    """

    def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode.

        Raises: JudgeError if the task has no truth that this reward can read.
        """
        truth = episode.task.truth
        if not isinstance(truth, dict) or not isinstance(truth.get("state"), str):
            raise JudgeError(
                f"{episode.task.id} has no truth['state'], the digest of the final state, which tau compares with."
            )
        if (record := record_of(episode)) is None:
            return {SUCCESS: 0.0}
        data_right = record["state"] == truth["state"]
        outputs_right = are_said(truth.get("outputs", ()), [turn.message for turn in episode.turns])
        counts = counts_of(record, "state")
        return {
            SUCCESS: float(data_right and outputs_right),
            "data_right": float(data_right),
            "outputs_right": float(outputs_right),
            **counts,
        }

    def weights_for(self, episode: Trajectory) -> dict[str, float]:
        """Return the weights: 0 for everything but `success`."""
        return dict.fromkeys(episode.outcome.keys() - {SUCCESS}, 0.0)


def are_said(outputs: Iterable[Any], messages: Iterable[Message]) -> bool:
    """Return whether each output occurs in a message without calls, ignoring case and the message's commas."""
    texts = [fold_text(message.text).replace(",", "") for message in messages if not message.calls]
    return all(any(fold_text(str(output)) in text for text in texts) for output in outputs)


def record_of(episode: Trajectory) -> dict[str, Any] | None:
    """Return the record in the reply or the result that ended the episode; None without one."""
    record = final_record(episode, "state")
    return None if record is None else {**record, "state": str(record["state"])}
