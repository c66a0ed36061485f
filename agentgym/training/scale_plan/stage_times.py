"""How long the stages of a training take, read from two short runs of it: one episode at a time, and many at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from pydantic import TypeAdapter, ValidationError

from agentgym.errors import LedgerError
from agentgym.storage.ledger import Ledger
from agentgym.storage.run_folder import RunFolder
from agentgym.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class TurnTimes:
    """`tokens` that the policy generated, and the seconds that the tools took."""

    tokens: int
    tools_s: float


@dataclass(frozen=True, slots=True)
class EpisodeTimes:
    """The turns of one episode; `other_s` for its reset, its judge and its end."""

    turns: tuple[TurnTimes, ...]
    other_s: float


@dataclass(frozen=True, slots=True)
class StageTimes:
    """What the simulation needs to know of a training.

    Attributes:
        episodes: recorded ones, whose like are simulated.
        token_s: seconds for a token of a request that has a server to itself.
        token_load_s: what each further request of the server adds to that.
        learn_s: of a step on one trainer. `publish_s`: until the policy has the new weights.
        measured_step_s: of a synchronous step with many episodes at once, on the machine of the measurement.
    """

    episodes: tuple[EpisodeTimes, ...]
    token_s: float
    token_load_s: float
    learn_s: float
    publish_s: float = 0.0
    measured_step_s: float = 0.0

    def __post_init__(self) -> None:
        times = [self.token_load_s, self.learn_s, self.publish_s, self.measured_step_s]
        times += [x for episode in self.episodes for x in (episode.other_s, *(t.tools_s for t in episode.turns))]
        if not self.episodes or not 0 < self.token_s < math.inf or not all(0 <= x < math.inf for x in times):
            raise ValueError(
                "there must be an episode, and times must be finite, of a token above 0 and others 0 or more"
            )

    @classmethod
    def from_runs(cls, alone: RunFolder, together: RunFolder) -> StageTimes:
        """From a run with `episode.concurrency = 1` and one of the same recipe with many episodes at once.

        The first step of each is left out: things are loaded in it.
        Raises: LedgerError if one of them has fewer than two steps, or policy replies without tokens.
        """
        single, many = _steps_of(alone), _steps_of(together)
        learn_s = median(max(0.0, seconds - sum(t.duration_s for t in step)) for seconds, step in single)
        episodes = [t for _, step in single for t in step]
        token_s = _seconds_per_token(episodes)
        added = [_added_by_others(seconds - learn_s, step, token_s) for seconds, step in many]
        step_s = median(seconds for seconds, _ in many)
        load_s = max(0.0, median(added))
        return cls(tuple(map(_times_of, episodes)), token_s, load_s, learn_s, measured_step_s=step_s)

    def save(self, file: Path) -> None:
        partial = file.with_suffix(".partial")
        partial.write_bytes(_FORMAT.dump_json(self, indent=1))
        partial.replace(file)

    @classmethod
    def load(cls, file: Path) -> StageTimes:
        """Raises: LedgerError if the file is missing or not of this kind."""
        try:
            return _FORMAT.validate_json(file.read_bytes())
        except (OSError, ValidationError) as error:
            raise LedgerError(
                f"{file} holds no stage times ({' '.join(str(error).split())[:200]}). Remove it to measure them again."
            ) from error


_FORMAT: TypeAdapter[StageTimes] = TypeAdapter(StageTimes)


def _steps_of(run: RunFolder) -> list[tuple[float, list[Trajectory]]]:
    """Seconds and valid episodes of each training step but the first."""
    ledger = Ledger(run.ledger)
    try:
        steps = [
            (row["step_time"], [t for t in ledger.trajectories(f"train-{row['step'] - 1:06d}/") if t.valid])
            for row in run.metrics("train")
            if "step_time" in row and row["step"] > 1
        ]
    finally:
        ledger.close()
    if not steps or not all(any(turn.token_ids for t in step for turn in t.turns) for _, step in steps):
        raise LedgerError(f"{run.path} has no two training steps with tokens to measure. Train it for three steps.")
    return steps


def _seconds_per_token(episodes: Sequence[Trajectory]) -> float:
    turns = [turn for t in episodes for turn in t.turns]
    return sum(turn.generate_s for turn in turns) / sum(len(turn.token_ids) for turn in turns)


def _added_by_others(seconds: float, episodes: Sequence[Trajectory], token_s: float) -> float:
    """Seconds that each further request adds to a token, from how many were open on average (Little's law)."""
    requests = sum(turn.generate_s for t in episodes for turn in t.turns) / max(seconds, 1e-9)
    return (_seconds_per_token(episodes) - token_s) / max(requests - 1, 1.0)


def _times_of(trajectory: Trajectory) -> EpisodeTimes:
    turns = tuple(TurnTimes(len(turn.token_ids), turn.tools_s) for turn in trajectory.turns)
    in_turns_s = sum(turn.generate_s + turn.tools_s for turn in trajectory.turns)
    return EpisodeTimes(turns, max(0.0, trajectory.duration_s - in_turns_s))
