"""`web`: did the episode bring about what the task asks for, and nothing else? Judged by the state of the pages.

Source: state-based grading as in WebArena (Zhou et al. 2024, arXiv:2307.13854) and WebShop (Yao et al. 2022,
arXiv:2207.01206); the raw reward of a page as in MiniWoB++ (Liu et al. 2018, arXiv:1802.08802).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agentgym import JudgeError, Reward
from agentgym.messages import Result
from agentgym.reward import SUCCESS, Components, EpisodeView

OVER = "The task is over.\n"
"""Begins the result that ends an episode, before what the episode came to. No other result begins so: the others begin
with a line of ours about the page, or are refusals in our words."""


class WebReward(Reward):
    """Outcome components `success`, `effects_right` (share of what was asked for that was done) and, where the page
    itself gives a reward, `page_reward`; only `success` counts.

    `truth`: `effects`, what must have changed, exactly, as data or as JSON; `answer` (optional), compared without case
    and outer spaces, numbers by value; `page`, true where the page's own reward decides: above 0 is a success. An
    episode that never ended the task has failed it.
    """

    weights: Mapping[str, float] = {"effects_right": 0.0, "page_reward": 0.0}

    def outcome(self, episode: EpisodeView) -> Components:
        """Raises: JudgeError if the truth says nothing that can be judged."""
        truth = episode.task.truth
        if not isinstance(truth, Mapping) or not ({"effects", "page"} & truth.keys()):
            raise JudgeError(
                f"{episode.task.id} has neither truth['effects'] nor truth['page']: nothing can be judged."
            )
        came_to, answer = self._end(episode)
        if truth.get("page"):
            reward = float((came_to or {}).get("page_reward") or 0.0)
            return {SUCCESS: float(reward > 0), "page_reward": reward}
        wanted = _effects(truth["effects"], episode.task.id)
        done = (came_to or {}).get("effects", {})
        right = came_to is not None and _plain(done) == _plain(wanted)
        if "answer" in truth:
            right = right and same(answer, str(truth["answer"]))
        share = sum(_plain(done.get(key)) == _plain(value) for key, value in wanted.items()) / max(len(wanted), 1)
        return {SUCCESS: float(right), **({"effects_right": share} if wanted else {})}

    def _end(self, episode: EpisodeView) -> tuple[Mapping[str, Any] | None, str]:
        """What the episode came to, None if the task was never ended; and what was answered."""
        for turn in episode.turns[-1:]:
            for call, result in zip(turn.calls, turn.results, strict=False):
                if (found := _read(result)) is not None:
                    return found, str(call.arguments.get("text", "")) if call.name == "answer" else ""
        return None, ""


def same(given: str, wanted: str) -> bool:
    """Whether two answers say the same: without case, outer spaces and a last full stop; numbers by value."""
    left, right = (" ".join(text.casefold().split()).removesuffix(".") for text in (given, wanted))
    if left == right:
        return bool(left)
    try:
        return abs(float(left) - float(right)) < 1e-9
    except ValueError:
        return False


def _read(result: Result) -> Mapping[str, Any] | None:
    if not result.ok or not isinstance(result.content, str) or not result.content.startswith(OVER):
        return None
    try:
        found = json.loads(result.content[len(OVER) :])
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _effects(given: Any, where: str) -> Mapping[str, Any]:
    try:
        found = json.loads(given) if isinstance(given, str) else given
    except ValueError as error:
        raise JudgeError(f"{where}: truth['effects'] is no JSON: {error}.") from error
    if not isinstance(found, Mapping):
        raise JudgeError(f"{where}: truth['effects'] is {found!r:.60}: a mapping is needed.")
    return found


def _plain(value: Any) -> Any:
    """Text without case and with single spaces; the order of keys does not count, that of lists does."""
    if isinstance(value, str):
        return " ".join(value.casefold().split())
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in sorted(value.items())}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value
