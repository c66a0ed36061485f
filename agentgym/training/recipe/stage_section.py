"""One entry of the recipe's list of stages, and what entries that learn from stored episodes have in common."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from agentgym.options import Count, Section, Share

MICROBATCH_TOKENS = 16_384
"""Tokens of a part of a batch by default, padding included."""
_USUAL_NAMES = {"imitate": "warm_start", "reinforce": "train"}


class StageSection(Section):
    """One stage of a run; `[[stage]]` lists them in their order. Without a list a run has the usual stages."""

    kind: str
    """What the stage does, see `agentgym list stages`."""
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")] | None = None
    """The name of its checkpoints, episodes and metrics, or of the evaluation that it writes. By default it is
    `warm_start` for `imitate`, `train` for `reinforce`, else the kind."""
    options: dict[str, Any] = {}
    """Keys that replace those of [warm_start] for `imitate`, of [train] for `reinforce`, and of [evaluate] for
    `evaluate` and `control`. Other kinds have options of their own."""

    @property
    def given_name(self) -> str:
        """The name, or the usual one of its kind."""
        return self.name or _USUAL_NAMES.get(self.kind, self.kind)


class ReadsEpisodes(Section):
    """A part of a recipe that learns from episodes which earlier stages, or other runs, have played."""

    reads_last_player: ClassVar[bool] = False
    """Whether, without `episodes`, those of the nearest earlier stage that plays are meant."""

    episodes: list[str] = []
    """The stages whose episodes are read: names of earlier stages, or `runs/other:label` for the episodes of another
    run whose label is `label` or begins with `label-`. Inside `repeat`, a name means the stage of the same round, or
    else of the round before."""
    earlier_rounds: Share = 0.0
    """The share of the episodes of earlier rounds that is mixed in, 0 to 1."""

    @model_validator(mode="before")
    @classmethod
    def _names_of_stages(cls, data: Any) -> Any:
        if isinstance(data, dict) and (isinstance(data.get("episodes"), str) or "runs" in data):
            raise ValueError(
                f"`episodes` lists names of stages, such as ['collect'], and those of other runs as "
                f"'runs/other:collect'. A beginning of ids as in episodes = {data.get('episodes', 'train-')!r}, and "
                "`runs`, are of an earlier agentgym"
            )
        return data

    @property
    def reads_nodes(self) -> bool:
        """Whether the nodes of the searches of these stages are meant, and not the episodes that came of them."""
        return False


class RepeatSection(Section):
    """Options of `repeat`: a block of stages that is run several times."""

    times: Count
    """How often the block is run."""
    stages: Annotated[list[StageSection], Field(min_length=1)]
    """The stages of the block, written as entries of `[[stage]]`. In round 2 the name of each has the ending `_2`."""
