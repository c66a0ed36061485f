"""Resolve the recipe's names of episodes that a stage learns from to labels in ledgers, before anything starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Protocol

from agentgym.errors import RecipeError
from agentgym.storage.reader import LedgerReader
from agentgym.training.recipe.stage_section import ReadsEpisodes

LEDGER = "ledger.sqlite"
LABEL_ENDS = "/-"
"""Characters that may follow the label in an episode's id."""


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
        label: the label of the episodes, or its part before a "-".
        run: the folder of another run; "" for this run.
        is_earlier: whether an earlier round of `repeat` played them.
    """

    label: str
    run: str = ""
    is_earlier: bool = False


class NamedStage(Protocol):
    """A stage's names in the run and in the recipe."""

    @property
    def name(self) -> str:
        """Return the name with the number of the round."""
        ...

    @property
    def base_name(self) -> str:
        """Return the name in the recipe."""
        ...


def sources_of(section: ReadsEpisodes, name: str, players: Sequence[NamedStage]) -> list[EpisodeSource]:
    """Return the sources of the episodes that a section names.

    Args:
        name: the name of the stage that reads the episodes.
        players: the earlier stages whose episodes the ledger stores.
    Raises: RecipeError for a name without episodes, or if there is no name and no stage to read.
    """
    names = section.episodes
    if not names and section.reads_last_player:
        if not players:
            raise RecipeError(
                f"The stage {name!r} has no episodes to learn from. Put a stage `collect` before it, or name some in "
                "its option `episodes`, for example ['runs/other:train']."
            )
        names = [players[-1].base_name]
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


def _of_this_run(text: str, name: str, players: Sequence[NamedStage], section: ReadsEpisodes) -> list[EpisodeSource]:
    """Return the episodes of the last stage with a name, and of earlier rounds if the section mixes them in."""
    named = [stage for stage in players if text in (stage.name, stage.base_name)]
    if not named:
        known = [stage.base_name for stage in players]
        close = get_close_matches(text, known, n=1)
        hint = f"Did you mean {close[0]!r}?" if close else f"Such stages: {', '.join(dict.fromkeys(known)) or 'none'}."
        raise RecipeError(f"The stage {name!r} names the episodes {text!r}, but no earlier stage plays them. {hint}")
    rounds = named if section.earlier_rounds else named[-1:]
    return [EpisodeSource(_label_of(stage.name, section), is_earlier=stage is not named[-1]) for stage in rounds]


def _label_of(stage: str, section: ReadsEpisodes) -> str:
    return nodes_label(stage) if section.reads_nodes else stage
