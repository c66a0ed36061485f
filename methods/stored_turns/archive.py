"""Recorded episodes of this run and of other runs, by id."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from agentgym import LedgerError, RecipeError, Trajectory
from agentgym.policy import Renderer
from agentgym.rollout import schemas_of
from agentgym.storage import Ledger, RunFolder

CHECKED = 8
"""Number of episodes whose prompt tokens are compared with the model's."""


class EpisodeArchive:
    """Finished episodes. Ids from another run begin with its folder: `runs/first:train-000000/box-1#0`.

    Args:
        own: the ledger of this run; None for a run without a ledger.
        runs: folders of other runs.
        label: prefix of the ids of other runs' episodes, such as "train-".
    """

    def __init__(self, own: Ledger | None, runs: Sequence[str] = (), label: str = "") -> None:
        self._own, self._runs, self._label = own, runs, label

    def load(self, episode: str) -> Trajectory:
        """Return the record of an episode. Raises: LedgerError if there is none."""
        for run in self._runs:
            if episode.startswith(f"{run}:"):
                ledger = _open(run)
                try:
                    return _renamed(ledger.load(episode.removeprefix(f"{run}:")), run)
                finally:
                    ledger.close()
        if self._own is None:
            raise LedgerError(f"The episode {episode!r} cannot be read, because this run keeps no ledger.")
        return self._own.load(episode)

    def of_other_runs(self) -> Iterator[Trajectory]:
        """Yield the valid episodes of the other runs, run by run."""
        for run in self._runs:
            ledger = _open(run)
            try:
                for trajectory in ledger.trajectories(self._label):
                    if trajectory.valid:
                        yield _renamed(trajectory, run)
            finally:
                ledger.close()


def check_runs(key: str, runs: Sequence[str], label: str) -> None:
    """Check that each run has a valid episode. Raises: RecipeError naming the recipe's key and the run."""
    for run in runs:
        if not RunFolder(run).ledger.is_file():
            raise RecipeError(f"{key}: {run!r} is not a run folder: it has no {RunFolder(run).ledger.name}.")
        if next(EpisodeArchive(None, [run], label).of_other_runs(), None) is None:
            begins = f" whose id begins with {label!r}" if label else ""
            raise RecipeError(f"{key}: the ledger of {run!r} has no valid episode{begins}. Name a run that has some.")


def check_tokens(trajectories: Sequence[Trajectory], renderer: Renderer) -> None:
    """Check that the first episodes have the trained model's tokens, by rendering their prompts again.

    Raises: RecipeError naming the first episode whose prompt renders to other tokens.
    """
    for trajectory in trajectories[:CHECKED]:
        if renderer.prompt(trajectory.opening, schemas_of(trajectory)) != trajectory.prompt_ids:
            player = f" by {trajectory.provenance.policy}" if trajectory.provenance.policy else ""
            raise RecipeError(
                f"The stored episode {trajectory.id!r} was played{player} with other tokens than those of the trained "
                "model: its tokenizer or chat template differs. Choose episodes of this model, or of one trained "
                "from it."
            )


def _open(run: str) -> Ledger:
    return Ledger(Path(RunFolder(run).ledger))


def _renamed(trajectory: Trajectory, run: str) -> Trajectory:
    trajectory.id = f"{run}:{trajectory.id}"
    return trajectory
