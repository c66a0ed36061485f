"""How long the parts of a training take: generating, tools, learning and publishing weights.

The simulation needs these times.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from agentgym import LedgerError


@dataclass(frozen=True, slots=True)
class TurnTimes:
    """Number of generated `tokens`, and the seconds that the tools took."""

    tokens: int
    tools_s: float


@dataclass(frozen=True, slots=True)
class EpisodeTimes:
    """The turns of one episode; `other_s`: seconds of its reset, judging and end."""

    turns: tuple[TurnTimes, ...]
    other_s: float


@dataclass(frozen=True, slots=True)
class StageTimes:
    """Measurements of a training for the simulation.

    Attributes:
        episodes: recorded episodes, which the simulation replays.
        token_s: seconds per token of a request that has a server to itself.
        token_load_s: seconds that each further request on the server adds to a token.
        learn_s: seconds of a step on one trainer. `publish_s`: seconds until the policy has the new weights.
        measured_step_s: seconds of a synchronous step with many concurrent episodes, on the measuring machine.
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
                "stage times need at least one episode, and finite times: token_s above 0, the others at least 0 "
                f"(got {len(self.episodes)} episodes, {self.token_s}, and others from {min(times)} to {max(times)})"
            )

    def save(self, file: Path) -> None:
        partial = file.with_suffix(".partial")
        partial.write_bytes(_FORMAT.dump_json(self, indent=1))
        partial.replace(file)

    @classmethod
    def load(cls, file: Path) -> StageTimes:
        """Read the times from a file. Raises: LedgerError if the file is missing or of another kind."""
        try:
            return _FORMAT.validate_json(file.read_bytes())
        except (OSError, ValidationError) as error:
            raise LedgerError(
                f"{file} does not contain stage times ({' '.join(str(error).split())[:200]}). Remove it to measure "
                "them again."
            ) from error


_FORMAT: TypeAdapter[StageTimes] = TypeAdapter(StageTimes)
