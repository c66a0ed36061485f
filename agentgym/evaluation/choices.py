"""How one of a task's episodes is chosen without knowing the truth: by votes for an answer, or by a score."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence

from agentgym.errors import EvaluationError
from agentgym.evaluation.statistics.choosing import Key
from agentgym.messages import Call, Result, StopReason
from agentgym.reward.comparison import read_number
from agentgym.reward.contract import SUCCESS
from agentgym.text import fold_text
from agentgym.trajectory.record import Trajectory


def majority(episode: Trajectory) -> str | None:
    """Return the answer: what the final call says, without lists and objects, or else the text of the last message.

    Numbers are compared by value, other texts folded. None for an episode that has not answered, or by files alone.
    """
    for call, result in _calls(episode):
        if result.final and result.ok:
            answer = {name: value for name, value in call.arguments.items() if not isinstance(value, list | dict)}
            return _key({name: _plain(value) for name, value in answer.items()}) if answer else None
    last = episode.turns[-1] if episode.turns else None
    if last is not None and episode.stop_reason is StopReason.ANSWERED and not last.calls and last.message.text.strip():
        return _key(_plain(last.message.text))
    return None


def agreement(episode: Trajectory) -> str | None:
    """Return what the last call before the answer gave back, such as the rows of a query; None without one.

    Source: execution agreement, Shi et al. 2022, arXiv:2204.11454, by the results that the episode already has.
    """
    results = [result for _, result in _calls(episode) if result.ok and not result.final]
    return _key(_plain(str(results[-1].content))) if results else None


VOTES: dict[str, Callable[[Trajectory], str | None]] = {"majority": majority, "agreement": agreement}


def check_choices(names: Sequence[str], group_size: int) -> None:
    """Raise EvaluationError for one episode a task, or for the score `success`."""
    if names and group_size < 2:
        raise EvaluationError(
            "--choose chooses among the episodes of a task, and each is played once. Give --group-size 8, for example."
        )
    if SUCCESS in names:
        raise EvaluationError(
            f"--choose {SUCCESS} would choose by the truth: that is pass@k, which stands in the table. "
            f"Choose by {', '.join(VOTES)}, or by another component of the reward."
        )


def choice_key(name: str, episode: Trajectory) -> Key:
    """Return what an episode is chosen by: a vote, or the outcome component of this name; None if it has none."""
    if not episode.scored:
        return None
    return VOTES[name](episode) if name in VOTES else episode.outcome.get(name)


def check_components(names: Sequence[str], episodes: Sequence[Trajectory]) -> None:
    """Raise EvaluationError for a component that no judged episode has."""
    known = {name: None for episode in episodes if episode.scored for name in episode.outcome}
    for name in names:
        if known and name not in VOTES and name not in known:
            raise EvaluationError(
                f"--choose {name}: every episode was judged without such a component. Choose by "
                f"{', '.join([*VOTES, *(each for each in known if each != SUCCESS)])}."
            )


def _calls(episode: Trajectory) -> list[tuple[Call, Result]]:
    return [pair for turn in episode.turns for pair in zip(turn.calls, turn.results, strict=False)]


def _plain(value: object) -> str:
    text = str(value)
    number = read_number(text)
    return fold_text(text) if number is None else str(number)


def _key(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
