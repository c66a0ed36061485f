"""Report what episodes wait for when none of them progresses, in one run or in several that share a watch."""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agentgym.policy.contract import Policy
from agentgym.rollout.engine import EpisodePlayer
from agentgym.rollout.episodes import EpisodeJob
from agentgym.rollout.failures import LOGGER

_MAX_LISTED = 3
_TURN = re.compile(r" (?:in|for|of|before) turn \d+$")


class StandstillWatch:
    """Warns if no watched episode progresses and no policy samples a token for a while. Used on one event loop.

    Args:
        warn_after_s: seconds until the first warning; each further warning takes twice as long. None for no warnings.
    """

    def __init__(self, warn_after_s: float | None) -> None:
        self._warn_after_s = warn_after_s
        self._playing: dict[str, tuple[EpisodeJob, EpisodePlayer, Policy]] = {}
        self._runs = 0
        self._task: asyncio.Task[None] | None = None

    def begin(self, job: EpisodeJob, player: EpisodePlayer, policy: Policy) -> None:
        self._playing[job.trajectory.id] = job, player, policy

    def end(self, job: EpisodeJob) -> None:
        self._playing.pop(job.trajectory.id, None)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Watch while at least one run is inside this context."""
        self._runs += 1
        if self._task is None:
            self._task = asyncio.ensure_future(self._watch())
        try:
            yield
        finally:
            self._runs -= 1
            if not self._runs:
                task, self._task = self._task, None
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _watch(self) -> None:
        if self._warn_after_s is None:
            return
        now = asyncio.get_running_loop().time
        last, last_change, warn_after_s = (self._state(), self._sampled()), now(), self._warn_after_s
        while True:
            await asyncio.sleep(self._warn_after_s / 4)
            state, sampled = self._state(), self._sampled()
            if (state, sampled) != last:
                last, last_change, warn_after_s = (state, sampled), now(), self._warn_after_s
            elif state and now() - last_change >= warn_after_s:
                logging.getLogger(LOGGER).warning(standstill(state, now() - last_change))
                warn_after_s *= 2

    def _state(self) -> dict[str, tuple[int, str]]:
        """Return the progress and activity of each episode, by id."""
        return {name: player.progress(job) for name, (job, player, _) in self._playing.items()}

    def _sampled(self) -> list[list[int]]:
        """Return the tokens of the running requests of each policy."""
        policies = {id(policy): policy for _, _, policy in self._playing.values()}
        return [list(policy.running) for policy in policies.values()]


def standstill(state: dict[str, tuple[int, str]], seconds: float) -> str:
    """Return one line with the activities that episodes have been stuck in, most frequent first."""
    examples = {_TURN.sub("", activity): name for name, (_, activity) in reversed(state.items())}
    counts = Counter(_TURN.sub("", activity) for _, activity in state.values())
    listed = [
        f"{count} {'is' if count == 1 else 'are'} {activity} (such as {examples[activity]})"
        for activity, count in counts.most_common(_MAX_LISTED)
    ]
    more = f", {len(counts) - _MAX_LISTED} more activities" if len(counts) > _MAX_LISTED else ""
    return f"No episode has moved for {seconds:.0f} s: {', '.join(listed)}{more}."
