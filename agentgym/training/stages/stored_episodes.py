"""The stored episodes that a stage learns from. They are looked up in ledgers; a manifest lists the chosen ones with
digests.

The manifest makes a stage reproducible and resumable: a resumed run reads the same rows, and a changed episode is an
error. The manifest is `episodes.json` in the stage's folder.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from agentgym.errors import RecipeError
from agentgym.policy.contract import Renderer
from agentgym.rollout.environments import schemas_of
from agentgym.storage.reader import LedgerReader
from agentgym.storage.run_folder import RunFolder
from agentgym.task.definition import seed_of
from agentgym.training.demonstrate import tokenise
from agentgym.training.recipe.stage_section import ReadsEpisodes
from agentgym.trajectory.record import Trajectory

LEDGER = "ledger.sqlite"
LABEL_ENDS = "/-"
"""Characters that may follow the label in an episode's id."""
MANIFEST = "episodes.json"
Row = dict[str, Any]


def searched_label(stage: str) -> str:
    """Return the label of the episodes chosen by a stage's searches."""
    return f"searched-{stage}"


def nodes_label(stage: str) -> str:
    """Return the label of the nodes grown by a stage's searches."""
    return f"nodes-{searched_label(stage)}"


@dataclass(frozen=True, slots=True)
class EpisodeSource:
    """Episodes of one ledger.

    Attributes:
        label: the label of the episodes, or the part of their labels before a "-".
        run: the folder of another run; "" for this run.
        is_earlier: whether an earlier round of `repeat` played them.
    """

    label: str
    run: str = ""
    is_earlier: bool = False


def sources_of(section: ReadsEpisodes, name: str, players: Sequence[tuple[str, str]]) -> list[EpisodeSource]:
    """Return the sources of the episodes that a section names.

    Args:
        name: the name of the stage that reads the episodes.
        players: the earlier stages whose episodes the ledger stores: their names in the run, with the number of the
            round, and in the recipe.
    Raises: RecipeError for a name without episodes, or if the section names none and no earlier stage played any.
    """
    names = section.episodes
    if not names and section.reads_last_player:
        if not players:
            raise RecipeError(
                f"The stage {name!r} has no episodes to learn from. Put a stage `collect` before it, or name some in "
                "its option `episodes`, for example ['runs/other:train']."
            )
        names = [players[-1][1]]
    sources: list[EpisodeSource] = []
    for text in names:
        sources += [_other_run(text, name, section)] if ":" in text else _of_this_run(text, name, players, section)
    return sources


def _other_run(text: str, name: str, section: ReadsEpisodes) -> EpisodeSource:
    run, _, stage = text.rpartition(":")
    label = _label_of(stage, section) if stage else ""
    if not (Path(run) / LEDGER).is_file():
        raise RecipeError(
            f"The stage {name!r} names the episodes {text!r}, but the file {run}/{LEDGER} does not exist. Check the "
            "path of the run."
        )
    if not label:
        raise RecipeError(
            f"The stage {name!r} names the episodes {text!r} without a label. Add one, for example {run}:train."
        )
    reader = LedgerReader(Path(run) / LEDGER)
    try:
        if not any(reader.finished(f"{label}{separator}") for separator in LABEL_ENDS):
            raise RecipeError(
                f"The stage {name!r} names the episodes {text!r}, but that run finished none with this label. Check "
                "the label, or let the run play them first."
            )
    finally:
        reader.close()
    return EpisodeSource(label, run)


def _of_this_run(
    text: str, name: str, players: Sequence[tuple[str, str]], section: ReadsEpisodes
) -> list[EpisodeSource]:
    """Return the episodes of the last stage with a name, and of earlier rounds if the section mixes them in."""
    named = [in_run for in_run, in_recipe in players if text in (in_run, in_recipe)]
    if not named:
        known = [in_recipe for _, in_recipe in players]
        close = get_close_matches(text, known, n=1)
        hint = f"Did you mean {close[0]!r}?" if close else f"Such stages: {', '.join(dict.fromkeys(known)) or 'none'}."
        raise RecipeError(f"The stage {name!r} names the episodes {text!r}, but no earlier stage plays them. {hint}")
    rounds = named if section.earlier_rounds else named[-1:]
    return [EpisodeSource(_label_of(stage, section), is_earlier=stage != named[-1]) for stage in rounds]


def _label_of(stage: str, section: ReadsEpisodes) -> str:
    return nodes_label(stage) if section.reads_nodes else stage


@dataclass(frozen=True, slots=True)
class EpisodeSet:
    """The data that a stage learns from.

    Attributes:
        episodes: the episodes that the rows name, by id. For an episode of another run, the id begins with
            `<run folder>:`.
        rows: the rows of the stage's manifest, as JSON data. Each names one or more of the episodes.
    """

    episodes: dict[str, Trajectory]
    rows: list[Row]


Choose = Callable[[list[Trajectory]], tuple[list[Row], list[Trajectory]]]
"""A function that maps all episodes, sorted by id, to a stage's rows and the episodes that the rows name."""


def every_valid(trajectories: list[Trajectory]) -> tuple[list[Row], list[Trajectory]]:
    """Choose all valid episodes. Return the rows, one for each episode, and the episodes."""
    valid = [trajectory for trajectory in trajectories if trajectory.valid]
    return [{"episode": trajectory.id} for trajectory in valid], valid


@dataclass(frozen=True, slots=True)
class StoredEpisodes:
    """The stored episodes that a stage of a run may learn from.

    Attributes:
        folder: the stage's folder. stage: the stage's name.
        sources: the sources of the episodes.
        seed: the seed of the run, for drawing among the episodes of earlier rounds.
    """

    folder: RunFolder
    stage: str
    sources: Sequence[EpisodeSource]
    seed: int

    def choose(
        self,
        renderer: Renderer,
        section: ReadsEpisodes,
        choose: Choose = every_valid,
        *,
        options: dict[str, Any] | None = None,
        file: str = MANIFEST,
    ) -> EpisodeSet:
        """Choose rows among the episodes of the stage's sources, or read the rows from an existing manifest.

        Args:
            renderer: tokenises episodes of other policies.
            section: names the episodes, and the fraction of earlier rounds' episodes to draw.
            choose: maps all episodes, sorted by id, to the rows and the episodes that the rows name.
            options: recorded in the manifest for human readers.
            file: the name of the manifest.
        Raises: RecipeError if the sources have no finished episode, if an episode is of a task that is not for
            training, or if an episode has changed since the manifest was written.
        """
        if (self.folder.path / file).is_file():
            return self._read(renderer, file)
        trajectories = self._query(renderer, section.earlier_rounds)
        rows, chosen = choose(trajectories)
        episodes = {trajectory.id: trajectory for trajectory in chosen}
        manifest = {
            "sources": [asdict(source) for source in self.sources],
            "options": options or {},
            "read": len(trajectories),
            "episodes": [{"id": key, "sha256": digest_of(episode)} for key, episode in episodes.items()],
            "rows": rows,
        }
        self.folder.write_json(file, manifest)
        return EpisodeSet(episodes, rows)

    def as_recorded(self) -> list[Trajectory]:
        """Return the finished episodes of the sources with their players' own tokens. Raises: as `choose` does."""
        trajectories = [
            trajectory for source in self.sources for trajectory in finished_of(self._ledger(source.run), source.label)
        ]
        check_usable(self.stage, self.sources, trajectories)
        return trajectories

    def _query(self, renderer: Renderer, earlier_rounds: float) -> list[Trajectory]:
        """Return the finished episodes of the sources, with a random subset of earlier rounds."""
        trajectories: list[Trajectory] = []
        for source in self.sources:
            recorded = finished_of(self._ledger(source.run), source.label)
            read = [_with_tokens(each, renderer, source.run) for each in recorded]
            if source.is_earlier:
                draws = random.Random(seed_of(self.seed, self.stage, source.label))
                read = sorted(draws.sample(read, round(earlier_rounds * len(read))), key=read.index)
            trajectories += read
        check_usable(self.stage, self.sources, trajectories)
        return trajectories

    def _read(self, renderer: Renderer, file: str) -> EpisodeSet:
        """Load the manifest's episodes from the ledgers."""
        manifest = self.folder.read_json(file)
        runs = {source["run"] for source in manifest["sources"]} | {""}
        readers = {run: LedgerReader(self._ledger(run)) for run in runs}
        try:
            episodes: dict[str, Trajectory] = {}
            for entry in manifest["episodes"]:
                run = next((run for run in runs if run and entry["id"].startswith(f"{run}:")), "")
                trajectory = _with_tokens(readers[run].load(entry["id"].removeprefix(f"{run}:")), renderer, run)
                if digest_of(trajectory) != entry["sha256"]:
                    raise RecipeError(
                        f"The episode {entry['id']!r} has changed since {self.folder.path / file} was written. "
                        "Restore the ledger, or delete the manifest to select episodes anew."
                    )
                episodes[entry["id"]] = trajectory
        finally:
            for reader in readers.values():
                reader.close()
        return EpisodeSet(episodes, manifest["rows"])

    def _ledger(self, run: str) -> Path:
        return Path(run) / LEDGER if run else self.folder.ledger


def digest_of(trajectory: Trajectory) -> str:
    """Return the SHA-256 of an episode's training content: task, conversation, tokens and rewards."""
    data = [
        trajectory.task.id,
        trajectory.prompt_ids,
        [[turn.token_ids, turn.observation_ids, turn.rewards, repr(turn.message)] for turn in trajectory.turns],
        trajectory.outcome,
        str(trajectory.stop_reason),
    ]
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def check_usable(stage: str, sources: Sequence[EpisodeSource], trajectories: Sequence[Trajectory]) -> None:
    """Raise RecipeError unless the sources have a finished episode and all episodes are of training tasks."""
    if not any(trajectory.valid for trajectory in trajectories):
        named = ", ".join(f"{source.run}:{source.label}".lstrip(":") for source in sources)
        raise RecipeError(
            f"The stage {stage!r} needs episodes of {named}, but the ledger has none that finished. Play them again, "
            "or name other episodes."
        )
    if tested := [t.task.id for t in trajectories if t.task.split != "train"]:
        raise RecipeError(
            f"The stage {stage!r} would learn from {tested[0]!r}, which is not a training task. Name episodes of a "
            "stage or run that plays training tasks."
        )


def finished_of(ledger: Path, label: str) -> list[Trajectory]:
    """Return the finished episodes of a label as recorded, sorted by id."""
    reader = LedgerReader(ledger)
    try:
        # Sorted by id, because an interrupted run may begin episodes in another order.
        return [reader.load(key) for end in LABEL_ENDS for key in reader.finished(f"{label}{end}")]
    finally:
        reader.close()


def _with_tokens(trajectory: Trajectory, renderer: Renderer, run: str) -> Trajectory:
    """Return the episode with token ids.

    The episode is tokenised if it has none, or if it is of another run and `renderer` gives its prompt other tokens.
    """
    has_tokens = all(turn.token_ids for turn in trajectory.turns)
    if has_tokens and run:
        has_tokens = trajectory.prompt_ids == renderer.prompt(trajectory.opening, schemas_of(trajectory))
    if not has_tokens:
        tokenise(trajectory, renderer)
    if run:
        trajectory.id = f"{run}:{trajectory.id}"
    return trajectory
