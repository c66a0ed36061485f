"""`tau2`: whether a tau2-bench domain's final state is right, and everything required was said and done."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym import JudgeError, Reward, Trajectory
from agentgym.reward import SUCCESS, Components

from .final_answer import counts_of
from .tau import are_said, record_of


class Tau2Bench(Reward):
    """For `agentgym/tau2-v1`: judges those parts of the published score that the task names in `truth["basis"]`.

    Outcome component `success`, 1.0 if every part of the basis is right; an episode that a budget ended has failed.
    Components of weight 0: the user's behaviour, with prefix `user_`, and each part of the basis:

    - `data_right` (DB): the data are those of `truth["state"]`, a digest.
    - `outputs_right` (COMMUNICATE): each of `truth["outputs"]` occurs in a message of the agent without calls.
    - `checks_right` (ENV_ASSERTION): the assertions return `truth["checks"]`.
    - `actions_right` (ACTION): each of `truth["actions"]` was called, by the agent or the customer, with the arguments
      named in its `compare_args`; without `compare_args`, all given arguments must match. Unlike in the
      published judge, a call that was not run, such as one without required arguments, does not count.

    Source: tau2-bench, Barres et al. 2025, arXiv:2506.07982, section 3. As published, an output counts wherever it
        occurs, and an agent that changes nothing succeeds if nothing has to change.
    """

    def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode.

        Raises: JudgeError if the task has no truth that this reward can read, or the record is unreadable.
        """
        truth = episode.task.truth
        if not isinstance(truth, dict) or not isinstance(truth.get("state"), str) or not truth.get("basis"):
            raise JudgeError(f"{episode.task.id} needs truth['state'] and truth['basis'], so that tau2 can judge it.")
        if (record := record_of(episode)) is None:
            return {SUCCESS: 0.0}
        messages = [
            *(message for message in episode.opening if message.role == "assistant"),
            *(turn.message for turn in episode.turns),
        ]
        calls = [(call.name, call.arguments) for message in episode.opening for call in message.calls]
        calls += [
            (call.name, call.arguments)
            for turn in episode.turns
            for call, result in zip(turn.calls, turn.results, strict=False)
            if result.ok
        ]
        calls += [(name, arguments) for name, arguments in record.pop("calls", ())]
        parts = {
            "DB": ("data_right", record.pop("state") == truth["state"]),
            "COMMUNICATE": ("outputs_right", are_said(truth.get("outputs", ()), messages)),
            "ENV_ASSERTION": ("checks_right", record.pop("checks", []) == truth.get("checks", [])),
            "ACTION": ("actions_right", _are_called(json.loads(truth.get("actions", "[]")), calls)),
        }
        if unknown := [part for part in truth["basis"] if part not in parts]:
            raise JudgeError(
                f"{episode.task.id}: truth['basis'] names {unknown}, but tau2 can judge only {', '.join(parts)}."
            )
        judged = dict(parts[part] for part in truth["basis"])
        return {
            SUCCESS: float(all(judged.values())),
            **{name: float(is_right) for name, is_right in judged.items()},
            **counts_of(record, *judged),
        }

    def weights_for(self, episode: Trajectory) -> dict[str, float]:
        """Return the weights: 0 for everything but `success`."""
        return dict.fromkeys(episode.outcome.keys() - {SUCCESS}, 0.0)


def _are_called(actions: Sequence[Mapping[str, Any]], calls: Sequence[tuple[str, Mapping[str, Any]]]) -> bool:
    return all(any(_is_call(action, name, arguments) for name, arguments in calls) for action in actions)


def _is_call(action: Mapping[str, Any], name: str, arguments: Mapping[str, Any]) -> bool:
    compared = action["compare_args"] if action["compare_args"] is not None else arguments.keys()
    given = {key: value for key, value in arguments.items() if key in compared}
    return action["name"] == name and given == {
        key: value for key, value in action["arguments"].items() if key in compared
    }
