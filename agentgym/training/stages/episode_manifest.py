"""The data set of a stage: a query on ledgers, kept as a manifest of which episodes it chose and what they held.

The manifest makes a stage reproducible and resumable: a run that goes on reads the same rows from it, and an episode
that has changed since is an error. It is `episodes.json` in the folder of the stage.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agentgym.errors import RecipeError
from agentgym.policy.contract import Renderer
from agentgym.rollout.environments import schemas_of
from agentgym.storage.reader import LedgerReader
from agentgym.task import seed_of
from agentgym.training.demonstrate import tokenise
from agentgym.training.stages.context import RunContext
from agentgym.training.stages.episode_sources import LABEL_ENDS, LEDGER, EpisodeSource
from agentgym.trajectory import Trajectory

MANIFEST = "episodes.json"
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class EpisodeSet:
    """What a stage learns from.

    Attributes:
        episodes: those that a row names, by id. The id of an episode of another run begins with `<its folder>:`.
        rows: as the stage made them, JSON data.
    """

    episodes: dict[str, Trajectory]
    rows: list[Row]


def episode_set(
    context: RunContext,
    renderer: Renderer,
    choose: Callable[[list[Trajectory]], tuple[list[Row], list[Trajectory]]],
    *,
    earlier_rounds: float = 0.0,
    options: dict[str, Any] | None = None,
    file: str = MANIFEST,
) -> EpisodeSet:
    """Choose rows among the episodes of the stage's sources, or read them from its manifest if it has one.

    Args:
        choose: from all episodes, sorted by id, to the rows and the episodes that these name.
        earlier_rounds: the share of the episodes of earlier rounds that is drawn.
        options: recorded in the manifest, to be read by people.
        file: the name of the manifest.
    Raises: RecipeError if the sources hold no episode of a training task, or one has changed.
    """
    if (context.folder.path / file).is_file():
        return _read(context, renderer, file)
    trajectories = _query(context, renderer, earlier_rounds)
    rows, chosen = choose(trajectories)
    episodes = {trajectory.id: trajectory for trajectory in chosen}
    manifest = {
        "sources": [asdict(source) for source in context.sources],
        "options": options or {},
        "read": len(trajectories),
        "episodes": [{"id": key, "sha256": digest_of(episode)} for key, episode in episodes.items()],
        "rows": rows,
    }
    context.folder.write_json(file, manifest)
    return EpisodeSet(episodes, rows)


def digest_of(trajectory: Trajectory) -> str:
    """SHA-256 over what an episode teaches: its task, conversation, tokens and rewards."""
    data = [
        trajectory.task.id,
        trajectory.prompt_ids,
        [[turn.token_ids, turn.observation_ids, turn.rewards, repr(turn.message)] for turn in trajectory.turns],
        trajectory.outcome,
        str(trajectory.stop_reason),
    ]
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def _query(context: RunContext, renderer: Renderer, earlier_rounds: float) -> list[Trajectory]:
    """Return the finished episodes of the sources, those of earlier rounds thinned out."""
    trajectories: list[Trajectory] = []
    for source in context.sources:
        read = _load(context, renderer, source)
        if source.is_earlier:
            draws = random.Random(seed_of(context.recipe.seed, context.stage, source.label))
            read = sorted(draws.sample(read, round(earlier_rounds * len(read))), key=read.index)
        trajectories += read
    check_usable(context.stage, context.sources, trajectories)
    return trajectories


def check_usable(stage: str, sources: Sequence[EpisodeSource], trajectories: Sequence[Trajectory]) -> None:
    """Raise RecipeError unless a stage has a finished episode of its sources, and all are of training tasks."""
    if not any(trajectory.valid for trajectory in trajectories):
        named = ", ".join(f"{source.run}:{source.label}".lstrip(":") for source in sources)
        raise RecipeError(f"The stage {stage!r} found no finished episode of {named} in the ledger.")
    if tested := [t.task.id for t in trajectories if t.task.split != "train"]:
        raise RecipeError(
            f"The stage {stage!r} would learn from {tested[0]!r}, which is no training task. Name the episodes "
            "of a stage or run that plays training tasks."
        )


def _load(context: RunContext, renderer: Renderer, source: EpisodeSource) -> list[Trajectory]:
    return [
        _with_tokens(each, renderer, source.run) for each in finished_of(_ledger(context, source.run), source.label)
    ]


def finished_of(ledger: Path, label: str) -> list[Trajectory]:
    """Return the finished episodes of a label as they were recorded."""
    reader = LedgerReader(ledger)
    try:
        # Sorted by id: in which order episodes began differs in a run that was broken off.
        return [reader.load(key) for end in LABEL_ENDS for key in reader.finished(f"{label}{end}")]
    finally:
        reader.close()


def _read(context: RunContext, renderer: Renderer, file: str) -> EpisodeSet:
    """Return what the manifest names, from the ledgers."""
    manifest = context.folder.read_json(file)
    runs = {source["run"] for source in manifest["sources"]} | {""}
    readers = {run: LedgerReader(_ledger(context, run)) for run in runs}
    try:
        episodes: dict[str, Trajectory] = {}
        for entry in manifest["episodes"]:
            run = next((run for run in runs if run and entry["id"].startswith(f"{run}:")), "")
            trajectory = _with_tokens(readers[run].load(entry["id"].removeprefix(f"{run}:")), renderer, run)
            if digest_of(trajectory) != entry["sha256"]:
                raise RecipeError(
                    f"The episode {entry['id']!r} is not what it was when {context.folder.path / file} was "
                    "written. Restore the ledger, or remove the manifest to choose anew."
                )
            episodes[entry["id"]] = trajectory
    finally:
        for reader in readers.values():
            reader.close()
    return EpisodeSet(episodes, manifest["rows"])


def _ledger(context: RunContext, run: str) -> Path:
    return Path(run) / LEDGER if run else context.folder.ledger


def _with_tokens(trajectory: Trajectory, renderer: Renderer, run: str) -> Trajectory:
    """Return the episode with token ids: its own, or those of the renderer if a policy without tokens or another played
    it.
    """
    prompt = trajectory.prompt_ids
    if not all(turn.token_ids for turn in trajectory.turns) or (run and prompt != _prompt(trajectory, renderer)):
        tokenise(trajectory, renderer)
    if run:
        trajectory.id = f"{run}:{trajectory.id}"
    return trajectory


def _prompt(trajectory: Trajectory, renderer: Renderer) -> list[int]:
    return renderer.prompt(trajectory.opening, schemas_of(trajectory))
