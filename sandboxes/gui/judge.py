"""`web`: whether the episode changed the pages exactly as the task asks, judged by their state at the end.

Source: state-based grading as in WebArena (Zhou et al. 2024, arXiv:2307.13854) and WebShop (Yao et al. 2022,
arXiv:2207.01206); the raw reward of a page as in MiniWoB++ (Liu et al. 2018, arXiv:1802.08802).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from agentgym import JudgeError, Result, ResultStatus, Reward, Trajectory
from agentgym.reward import SUCCESS, Components, comparison, read_submission

MAX_END_CHARS = 4_000_000
TASK_OVER = "The task is over.\n"
"""The first line of the result that ends an episode; the end state follows as JSON. No other result begins with this
line: an observation begins with a line about the page, and a refusal with our own words."""


class WebReward(Reward):
    """Outcome components `success`, `effects_right` (the share of the expected effects that happened) and, if the page
    gives a reward, `page_reward`; only `success` counts.

    Everything that `truth` names must be right: `effects`, exactly the changes, as data or as JSON; `answer`, compared
    as by `agentgym.reward.same_answer`; `url`, the end of the last address; `downloads`, text (or `sha256:` and the
    hash) by name. Or `page`, true if the page's own reward decides: above 0 is a success. An episode that never ended
    the task has failed.
    """

    weights: Mapping[str, float] = {"effects_right": 0.0, "page_reward": 0.0}

    def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode. Raises: JudgeError if the truth has nothing to judge by."""
        truth = episode.task.truth
        _check_truth(episode.task.id, episode.task.parameters, truth)
        end_state, answer = self._end_state(episode)
        if truth.get("page"):
            reward = float((end_state or {}).get("page_reward") or 0.0)
            return {SUCCESS: float(reward > 0), "page_reward": reward}
        expected = parse_effects(truth.get("effects", {}), episode.task.id)
        if not expected and not {"answer", "url", "downloads"} & truth.keys():
            raise JudgeError(
                f"{episode.task.id}: truth['effects'] is empty, and nothing else is judged. Add truth['answer']."
            )
        effects = (end_state or {}).get("effects", {})
        right = end_state is not None
        if "effects" in truth:
            right = right and "failed" not in (end_state or {}) and comparison.same_data(effects, expected, folded=True)
        if "url" in truth:
            right = right and str((end_state or {}).get("url", "")).endswith(str(truth["url"]))
        if "downloads" in truth:
            right = right and (end_state or {}).get("downloads", {}) == truth["downloads"]
        if "answer" in truth:
            right = right and comparison.same_answer(answer, str(truth["answer"]))
        share = sum(
            comparison.same_data(effects.get(key), value, folded=True) for key, value in expected.items()
        ) / max(len(expected), 1)
        return {SUCCESS: float(right), **({"effects_right": share} if expected else {})}

    def _end_state(self, episode: Trajectory) -> tuple[Mapping[str, Any] | None, str]:
        """Return the end state (None if the agent never ended the task) and the answer (empty if there is none)."""
        for turn in episode.turns[-1:]:
            for call, result in zip(turn.calls, turn.results, strict=False):
                if (end_state := _parse_end_state(result)) is not None:
                    return end_state, str(call.arguments.get("text", "")) if call.name == "answer" else ""
        return None, ""


def same_value(first: Any, second: Any) -> bool:
    """Return whether two values are equal, ignoring case and spaces in text."""
    return comparison.same_data(first, second, folded=True)


def _parse_end_state(result: Result) -> Mapping[str, Any] | None:
    own = result.status is ResultStatus.OK  # not what an agent's program answers in a tool's name
    if not own or not isinstance(result.content, str) or not result.content.startswith(TASK_OVER):
        return None
    text = result.content[len(TASK_OVER) :]
    return read_submission(lambda: _end_state(json.loads(text)))


def _end_state(data: dict[str, Any]) -> Mapping[str, Any]:
    """Parse a page's end state. Raises: ValueError, TypeError, AttributeError for other data."""
    page_reward = float(data.get("page_reward") or 0.0)
    if not math.isfinite(page_reward):
        raise ValueError("the page's reward must be a finite number")
    return {**data, "effects": dict(data.get("effects", {})), "page_reward": page_reward}


def parse_effects(raw: Any, task_id: str) -> Mapping[str, Any]:
    """Return the effects of a task's truth, which may be JSON. Raises: JudgeError if they are not a mapping."""
    try:
        effects = json.loads(raw) if isinstance(raw, str) else raw
    except ValueError as error:
        raise JudgeError(f"{task_id}: truth['effects'] is not JSON: {error}.") from error
    if not isinstance(effects, Mapping):
        raise JudgeError(f"{task_id}: truth['effects'] must be a mapping, not {effects!r:.60}.")
    return effects


def _check_truth(task_id: str, parameters: Mapping[str, Any], truth: Any) -> None:
    """Raise JudgeError if a task's truth is empty, or names something that this site cannot have."""
    site = parameters.get("site")
    if not isinstance(truth, Mapping) or not ({"effects", "answer", "url", "downloads", "page"} & truth.keys()):
        raise JudgeError(f"{task_id}: the truth has nothing to judge. Give it effects, answer, url, downloads or page.")
    if truth.get("page") and site != "miniwob":
        raise JudgeError(
            f"{task_id}: truth['page'] works only for MiniWoB++, because pages of {site!r} give no reward."
        )
    if "effects" in truth and site in ("folder", "server") and not parameters.get("state"):
        raise JudgeError(
            f"{task_id}: truth['effects'] needs parameters['state'], which reads the effects. Give it, or judge by "
            "answer, url or downloads."
        )
