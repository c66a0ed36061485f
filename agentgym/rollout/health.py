"""Whether a run gets anywhere: failures in a row end it, and one in which nothing moves says what it waits for."""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter

from agentgym.errors import EpisodesFailed
from agentgym.rollout.causes import LOGGER
from agentgym.rollout.engine import EpisodePlayer
from agentgym.rollout.jobs import Job
from agentgym.trajectory import Trajectory

_MOST_LISTED = 3
_TURN = re.compile(r" (?:in|for|of|before) turn \d+$")


class RunHealth:
    """Watches the episodes of one run.

    Args:
        max_failures_in_a_row: so many failed episodes, one after another in the order of their ends, end the run; None
            for no such end.
        stall_warning_s: warn when no episode has done anything new for so long, and again whenever that time has
            doubled; None for no warning.
    """

    def __init__(self, max_failures_in_a_row: int | None, stall_warning_s: float | None) -> None:
        self._most_failures, self._stall_s = max_failures_in_a_row, stall_warning_s
        self._failed: list[Trajectory] = []
        self._playing: dict[str, tuple[Job, EpisodePlayer]] = {}

    def begin(self, job: Job, player: EpisodePlayer) -> None:
        self._playing[job.trajectory.id] = job, player

    def end(self, job: Job) -> None:
        self._playing.pop(job.trajectory.id, None)

    def failures_with(self, trajectory: Trajectory) -> list[Trajectory]:
        """Count an episode that has ended. Returns: the failures in a row if they are too many, else nothing."""
        if trajectory.valid:
            self._failed.clear()
            return []
        self._failed.append(trajectory)
        return self._failed if len(self._failed) == self._most_failures else []

    async def watch(self) -> None:
        """Warn about standstills until cancelled."""
        if self._stall_s is None:
            return
        now = asyncio.get_running_loop().time
        last_state, last_change, warn_after_s = self._state(), now(), self._stall_s
        while True:
            await asyncio.sleep(self._stall_s / 4)
            if (state := self._state()) != last_state:
                last_state, last_change, warn_after_s = state, now(), self._stall_s
            elif state and now() - last_change >= warn_after_s:
                logging.getLogger(LOGGER).warning(standstill(state, now() - last_change))
                warn_after_s *= 2

    def _state(self) -> dict[str, tuple[int, str]]:
        """By episode, how far it is and what it is doing."""
        return {name: player.progress(job) for name, (job, player) in self._playing.items()}


def standstill(state: dict[str, tuple[int, str]], seconds: float) -> str:
    """One line that says what the episodes have been doing for so long, the most frequent first."""
    examples = {_TURN.sub("", activity): name for name, (_, activity) in reversed(state.items())}
    counts = Counter(_TURN.sub("", activity) for _, activity in state.values())
    listed = [
        f"{count} {'is' if count == 1 else 'are'} {activity} (such as {examples[activity]})"
        for activity, count in counts.most_common(_MOST_LISTED)
    ]
    more = f", {len(counts) - _MOST_LISTED} more activities" if len(counts) > _MOST_LISTED else ""
    return f"No episode has moved for {seconds:.0f} s: {', '.join(listed)}{more}."


def too_many_failures(failed: list[Trajectory], *, is_recorded: bool) -> EpisodesFailed:
    """The error that ends a run, with the causes. `is_recorded`: whether a ledger lets the run be resumed."""
    causes = Counter(t.error or f"no turn was taken ({t.stop_reason})" for t in failed)
    listed = "; ".join(f"{count} x {cause}" for cause, count in causes.most_common(_MOST_LISTED))
    hint = "They will be played again when it is resumed. " if is_recorded else ""
    return EpisodesFailed(
        f"{len(failed)} episodes in a row failed, so the run was stopped: {listed}. {hint}max_failures_in_a_row sets "
        "how many may."
    )
