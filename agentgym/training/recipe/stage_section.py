"""One entry of the recipe's list of stages, and the options of stages that collect episodes or learn from them."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from agentgym.evaluation.search import make_search
from agentgym.number_types import Positive
from agentgym.options import Count, Registered, Section, Share

MICROBATCH_TOKENS = 16_384
"""The default number of tokens in a part of a batch, including padding."""
_USUAL_NAMES = {"imitate": "warm_start", "reinforce": "train"}


class StageSection(Section):
    """One stage of a run; `[[stage]]` lists them in their order. Without a list a run has the usual stages."""

    kind: Annotated[str, Registered("stages")]
    """What the stage does, see `agentgym list stages`."""
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")] | None = None
    """The name of its checkpoints, episodes and metrics, or of the evaluation that it writes. By default it is
    `warm_start` for `imitate`, `train` for `reinforce`, else the kind."""
    options: dict[str, Any] = {}
    """Keys that replace those of [warm_start] for `imitate`, of [train] for `reinforce`, and of [evaluate] for
    `evaluate` and `control`. Other kinds have their own options."""

    @property
    def given_name(self) -> str:
        """The name of the stage, or the usual name for its kind."""
        return self.name or _USUAL_NAMES.get(self.kind, self.kind)


class ReadsEpisodes(Section):
    """A section of a recipe that learns from episodes of earlier stages or other runs."""

    reads_last_player: ClassVar[bool] = False
    """Whether a section without `episodes` reads the episodes of the last earlier stage that plays."""

    episodes: list[str] = []
    """The stages whose episodes are read: names of earlier stages, or `runs/other:label` for the episodes of another
    run whose label is `label` or begins with `label-`. Inside `repeat`, a name means the stage of the same round, or
    else of the round before."""
    earlier_rounds: Share = 0.0
    """The share of the episodes of earlier rounds that is mixed in, 0 to 1."""

    @property
    def reads_nodes(self) -> bool:
        """Whether to read the nodes of these stages' searches instead of the episodes that the searches chose."""
        return False


class RepeatSection(Section):
    """Options of `repeat`: a block of stages that is run several times."""

    times: Count
    """How often the block is run."""
    stages: Annotated[list[StageSection], Field(min_length=1)]
    """The stages of the block, written as entries of `[[stage]]`. In round 2 the name of each stage ends in `_2`."""


class CollectSection(Section):
    """Options of `collect`: episodes of training tasks that the ledger keeps for later stages."""

    tasks: Count | None = None
    """How many training tasks are played, drawn anew in each stage. By default all are."""
    group_size: Count = 1
    """How many episodes of each task are played."""
    temperature: Annotated[float, Field(ge=0)] | None = None
    """The sampling temperature. By default it is that of [episode]."""
    policy: str = "current"
    """The player: `current`, the policy being trained; `oracle` or `imperfect_oracle`, the task set's scripted players;
    or a registered policy with its options, for example "chat_api(base_url='http://localhost:8000/v1',
    model='teacher')". Episodes without token ids get the ids that the policy being trained would have written."""
    trees: bool = False
    """Grow each group as a tree, according to train.signals, so that episodes share their first turns."""
    search: str = ""
    """Let the policy search over the turns of each episode, such as "mcts(nodes=64)"; see docs/stages.md. The complete
    episodes of each tree are judged and stored, with each node's value at the turn that leaves it."""
    traces: bool = False
    """Begin each turn of these episodes with a text of what the search found: moves, their results, and values."""

    @model_validator(mode="after")
    def _player_that_fits(self) -> CollectSection:
        if self.traces and not self.search:
            raise ValueError(
                "traces = true writes down what a search visited, so it needs a search: set one, such as search = "
                "'mcts(nodes=32)'"
            )
        if self.search:
            make_search(self.search)
            if self.trees or self.policy != "current":
                raise ValueError(
                    "search works only with trees = false and policy = 'current': set both, or leave search out"
                )
        if self.trees and self.policy != "current":
            raise ValueError(
                f"trees = true needs policy = 'current', because {self.policy!r} cannot continue an episode from a "
                "given turn"
            )
        if self.trees and self.group_size < 3:
            raise ValueError(f"trees = true needs a group_size of at least 3, but it is {self.group_size}")
        return self


class LearningSection(ReadsEpisodes):
    """How a stage learns from stored episodes."""

    reads_last_player: ClassVar[bool] = True

    steps: Count = 50
    """How many optimiser steps are taken."""
    batch_size: Count = 8
    """How many pairs, labelled episodes or groups a step learns from."""
    learning_rate: Positive = 1e-4
    """The peak learning rate, which decays to a tenth."""
    max_grad_norm: Positive = 1.0
    """A longer gradient is scaled down to this norm."""
    save_every: Count = 50
    """The number of steps between two checkpoints, from which an interrupted stage continues."""
    microbatch_tokens: Count = MICROBATCH_TOKENS
    """A step is computed in parts of at most this many tokens, padding included. Fewer take less memory."""
