"""`gui_action`: whether the agent names the right action and argument: the next one, or the one between two screens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentgym import JudgeError, Reward, Trajectory
from agentgym.reward import SUCCESS, Components, comparison

from .boxes import answered_point, as_box, final_call, inside


class GuiAction(Reward):
    """Compares the agent's final call with `truth["act"]`: the kind of action and, if it has one, its box or text.

    For example ["click", [10, 20, 60, 40]], ["type", "Oslo"], ["back"].
    Components: `action_type`, 1.0 for the right kind; `action_argument`, 1.0 for the right kind with a point in the
    box, the same text, or no argument if none is needed; `success`, 1.0 if both are 1.0. The first two have weight 0.5.
    Source: rule rewards of UI-R1, Lu et al. 2025, arXiv:2503.21620, section 3.2; as a reward for inverse dynamics
        UIShift, Gao et al. 2025, arXiv:2505.12493.
    """

    weights: Mapping[str, float] = {"action_type": 0.5, "action_argument": 0.5}

    def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode. Raises: JudgeError if the truth names no action."""
        truth = episode.task.truth
        act = truth.get("act") if isinstance(truth, Mapping) else None
        if not isinstance(act, (list, tuple)) or not 1 <= len(act) <= 2 or not isinstance(act[0], str):
            raise JudgeError(
                f"{episode.task.id} has no truth['act'], which gui_action needs. Give it an action and its argument."
            )
        call = final_call(episode)
        kind = call is not None and call.arguments.get("action") == act[0]
        argument = kind and (len(act) == 1 or self._argument(episode, act[1]))
        return {"action_type": float(kind), "action_argument": float(argument), SUCCESS: float(argument)}

    def _argument(self, episode: Trajectory, expected: Any) -> bool:
        if isinstance(expected, str):
            call = final_call(episode)
            return call is not None and comparison.same_answer(call.arguments.get("text", ""), expected)
        box, point = as_box(expected), answered_point(episode)
        if box is None:
            raise JudgeError(
                f"{episode.task.id}: truth['act'] has the argument {expected!r}, which is neither text nor a box."
            )
        return point is not None and inside(point, box)
