"""Options of the stages that learn from comparisons of episodes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from agentgym.options import Count, Positive
from agentgym.training.stages import LearningSection


class ComparingSection(LearningSection):
    """How a stage learns from comparisons."""

    score: str = ""
    """The component of the outcome that ranks episodes. By default their return does."""


class PreferSection(ComparingSection):
    """Options of `prefer`: learning from pairs in which one episode or turn is better."""

    loss: Literal["dpo", "dmpo", "kto"] = "dpo"
    """`dpo`; `dmpo`, which counts early turns more; or `kto`, which needs no pairs, only good and bad episodes."""
    pairs: Literal["outcome", "turn", "segment", "nodes"] = "outcome"
    """`outcome` compares whole episodes of a task. `turn` compares turns after the same history, by the credit that
    `ranking` gives them. `segment` plays failed episodes again from their worst turn and compares a few turns. `nodes`
    compares turns after the same history in the trees of a `collect` with `search`, by the nodes' values."""
    beta: Positive = 0.1
    """How strongly the policy is held to the reference."""
    gamma: Annotated[float, Field(gt=0, le=1)] = 0.7
    """The decay per turn of dmpo."""
    imitation_weight: Annotated[float, Field(ge=0)] = 0.0
    """The weight of imitating the better episode, or a good one, beside the comparison. Without it both may become less
    likely: raise it from 0 if calls become malformed."""
    reference: str = "last_round"
    """`last_round`, the policy that the stage begins with; or the name of an earlier stage that trained."""
    margin: Annotated[float, Field(ge=0)] = 0.0
    """The better one of a pair must exceed the other by more than this, in score, credit or value."""
    max_pairs: Count = 4
    """How many pairs of one task are used at most."""
    max_length_ratio: Annotated[float, Field(ge=1)] | None = None
    """Leave out pairs whose lengths in tokens differ by more than this factor. By default none is left out."""
    truncated_winners: bool = False
    """Whether an episode that a budget cut off may be the better one."""
    ranking: str = "return_to_go"
    """The estimator that says which turn is better."""
    critic_epochs: Count | None = None
    """How many passes over the episodes first fit the critic that the estimator in `ranking` requires. Set it if, and
    only if, that estimator requires a critic."""
    branches: Count = 4
    """How often `segment` continues a failed episode."""
    segment_turns: Count = 3
    """How many turns `segment` compares."""
    desirable_from: float = 1.0
    """The score from which `kto` calls an episode good."""
    desirable_weight: Positive = 1.0
    """How much a good episode counts in `kto`."""
    undesirable_weight: Positive | None = None
    """How much a bad episode counts in `kto`. By default all bad ones together count as much as all good ones, as the
    paper advises: where nine of ten are bad, equal weights only make everything less likely."""

    @property
    def reads_nodes(self) -> bool:
        """Whether the nodes of searches are compared."""
        return self.pairs == "nodes"

    @model_validator(mode="after")
    def _whole_episodes(self) -> PreferSection:
        if self.loss != "dpo" and self.pairs != "outcome":
            raise ValueError(f"loss = {self.loss!r} compares whole episodes, so it needs pairs = 'outcome'")
        return self


class RankSection(ComparingSection):
    """Options of `rank`: learning the order of the episodes of each task."""

    max_candidates: Annotated[int, Field(ge=2)] = 8
    """How many episodes of a task are ranked: the best and the worst ones."""
    imitation_weight: Annotated[float, Field(ge=0)] = 1.0
    """The weight of imitating the best episode."""
