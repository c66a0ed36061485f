"""Count the turns and tokens of the episodes being played, to report before the first of them ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from agentgym.policy.contract import Policy
from agentgym.rollout.engine import EpisodePlayer
from agentgym.rollout.episodes import EpisodeJob
from agentgym.text import counted
from agentgym.trajectory.turn import Turn


@dataclass(frozen=True, slots=True)
class Work:
    """What policies have done.

    Attributes:
        tokens: those that policies sampled.
        episodes: how many are being played now.
        reading: how many requests have no token yet, since their prompts are being read.
    """

    turns: int = 0
    tokens: int = 0
    episodes: int = 0
    reading: int = 0

    def since(self, earlier: Work) -> Work:
        """Return the work done since `earlier`."""
        return Work(self.turns - earlier.turns, self.tokens - earlier.tokens, self.episodes, self.reading)

    def describe(self, seconds: float) -> str:
        """Return a text such as "8 episodes running, 36 turns, 1,234 tokens, 31 a second".

        Args:
            seconds: how long the work took.
        """
        parts = [f"{counted(self.episodes, 'episode')} running"] if self.episodes else []
        parts += [f"{counted(self.reading, 'prompt')} being read"] if self.reading else []
        parts += [counted(self.turns, "turn")] if self.turns or self.tokens else []
        parts += [f"{counted(self.tokens, 'token')}, {self.tokens / seconds:,.0f} a second"] if self.tokens else []
        return ", ".join(parts)


class Activity:
    """The work in the episodes that are played inside `counted_in`. May be read from any thread.

    Attributes:
        playing: the episodes being played, by trajectory id.
    """

    def __init__(self) -> None:
        self.playing: dict[str, tuple[EpisodeJob, EpisodePlayer, Policy]] = {}
        self._ended = Work()

    def end(self, job: EpisodeJob) -> None:
        """Count an episode that has ended, and forget its trajectory."""
        del self.playing[job.trajectory.id]
        turns = job.trajectory.turns
        self._ended = Work(self._ended.turns + len(turns), self._ended.tokens + _tokens_of(turns))

    @property
    def work(self) -> Work:
        """The work so far."""
        ended, playing = self._ended, list(self.playing.values())
        policies = {id(policy): policy for _, _, policy in playing}.values()
        requests = [tokens for policy in policies for tokens in policy.running]
        return Work(
            ended.turns + sum(player.progress(job)[0] for job, player, _ in playing),
            ended.tokens + sum(_tokens_of(job.trajectory.turns) for job, _, _ in playing) + sum(requests),
            len(playing),
            requests.count(0),
        )


def _tokens_of(turns: Sequence[Turn]) -> int:
    tokens = 0
    for turn in turns:
        tokens += len(turn.token_ids) or int(turn.usage.get("completion_tokens", 0))
    return tokens


_activity: ContextVar[Activity | None] = ContextVar("agentgym_activity", default=None)


@contextmanager
def counted_in(activity: Activity) -> Iterator[None]:
    """Count the episodes that are played inside the block."""
    token = _activity.set(activity)
    try:
        yield
    finally:
        _activity.reset(token)


def open_activity() -> Activity:
    """Return the activity of the enclosing `counted_in`; outside one, a new activity."""
    return _activity.get() or Activity()
