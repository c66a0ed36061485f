"""Options of the stages that collect episodes and learn from them."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from agentgym.options import Count, Rate, Section, Share
from agentgym.search import make_search
from agentgym.training.recipe.stage_section import MICROBATCH_TOKENS, ReadsEpisodes, RepeatSection


class CollectSection(Section):
    """Options of `collect`: episodes of training tasks that the ledger keeps for later stages.

    `tasks`: how many training tasks, drawn anew in each stage; by default all. `group_size`: episodes of each.
    `temperature`: of sampling; by default that of [episode].
    `policy`: who plays: `current`, the policy being trained; `oracle` or `imperfect_oracle`, the task set's scripted
    players; or a registered policy with its options, for example "chat_api(base_url='http://localhost:8000/v1',
    model='teacher')". Episodes without token ids get those that the policy being trained would have written.
    `trees`: grow each group as a tree (train.signals says how), so that episodes share their first turns.
    `search`: let the policy search over the turns of each episode, such as "mcts(nodes=64)"; see docs/stages.md. The
    ends of each tree are kept, judged, with the value of each node before the turn that leaves it.
    `traces`: the turns of these ends say first what the search found: moves, what followed, values.
    """

    tasks: Count | None = None
    group_size: Count = 1
    temperature: Annotated[float, Field(ge=0)] | None = None
    policy: str = "current"
    trees: bool = False
    search: str = ""
    traces: bool = False

    @model_validator(mode="after")
    def _traces_of_a_search(self) -> CollectSection:
        if self.traces and not self.search:
            raise ValueError("traces = true tells what a search found: give one, such as search = 'mcts(nodes=32)'")
        return self

    @model_validator(mode="after")
    def _search_of_the_policy(self) -> CollectSection:
        if self.search:
            make_search(self.search)
            if self.trees or self.policy != "current":
                raise ValueError("search needs trees = false and policy = 'current', which moves in it")
        return self

    @model_validator(mode="after")
    def _trees_of_the_policy(self) -> CollectSection:
        if self.trees and self.policy != "current":
            raise ValueError(f"trees = true needs policy = 'current', which can go on from a turn, not {self.policy!r}")
        if self.trees and self.group_size < 3:
            raise ValueError(f"trees = true needs group_size = 3 or more, not {self.group_size}")
        return self


class LearningSection(ReadsEpisodes):
    """How a stage learns from stored episodes.

    `steps`: optimiser steps. `batch_size`: pairs, labelled episodes or groups of a step. `learning_rate`: it decays to
    a tenth. `max_grad_norm`: longer gradients are clipped to this norm. `save_every`: steps between two checkpoints,
    from which a broken-off stage goes on.
    `microbatch_tokens`: a step is computed in parts of at most so many tokens, padding included.
    `score`: the component of the outcome that ranks episodes; by default their return.
    """

    reads_last_player: ClassVar[bool] = True

    steps: Count = 50
    batch_size: Count = 8
    learning_rate: Rate = 1e-4
    max_grad_norm: Rate = 1.0
    save_every: Count = 50
    microbatch_tokens: Count = MICROBATCH_TOKENS
    score: str = ""


class PreferSection(LearningSection):
    """Options of `prefer`: learning from pairs of episodes, or of turns, of which one is better.

    `loss`: `dpo`; `dmpo`, which counts early turns more; `kto`, which needs no pairs, only good and bad episodes.
    `pairs`: `outcome` compares whole episodes of a task; `turn` compares turns after the same history, by the credit
    that `ranking` gives them; `segment` plays failed episodes again from their worst turn and compares a few turns;
    `nodes` compares turns after the same history in the trees of a `collect` with `search`, by the nodes' values.
    `beta`: how strongly the policy is held to the reference. `gamma`: of dmpo, the decay per turn.
    `imitation_weight`: of the imitation of the better one, or of a good one, beside the comparison. Without it, both
    may become less likely: raise it from 0 where calls become malformed.
    `reference`: `last_round`, the policy that the stage begins with; or the name of an earlier stage that trained.
    `margin`: by how much the better one must exceed the other. `max_pairs`: of a task.
    `max_length_ratio`: pairs whose lengths in tokens differ by more than this factor are left out.
    `truncated_winners`: whether an episode that a budget cut may be the better one.
    `ranking`: the estimator that says which turn is better. `critic_epochs`: passes over the episodes in which the
    critic that this estimator requires is fitted first; needed where it requires one, and nowhere else.
    `branches`: of `segment`, how often a failed episode is continued. `segment_turns`: how many turns are compared.
    `desirable_from`: of kto, the score from which an episode is good. `desirable_weight`, `undesirable_weight`: of kto,
    how much a good and a bad episode count. By default all bad ones together count as much as all good ones, as the
    paper advises: where nine of ten are bad, equal weights only make everything less likely.
    """

    loss: Literal["dpo", "dmpo", "kto"] = "dpo"
    pairs: Literal["outcome", "turn", "segment", "nodes"] = "outcome"
    beta: Rate = 0.1
    gamma: Annotated[float, Field(gt=0, le=1)] = 0.7
    imitation_weight: Annotated[float, Field(ge=0)] = 0.0
    reference: str = "last_round"
    margin: Annotated[float, Field(ge=0)] = 0.0
    max_pairs: Count = 4
    max_length_ratio: Annotated[float, Field(ge=1)] | None = None
    truncated_winners: bool = False
    ranking: str = "return_to_go"
    critic_epochs: Count | None = None
    branches: Count = 4
    segment_turns: Count = 3
    desirable_from: float = 1.0
    desirable_weight: Rate = 1.0
    undesirable_weight: Rate | None = None

    @property
    def reads_nodes(self) -> bool:
        """As ReadsEpisodes."""
        return self.pairs == "nodes"

    @model_validator(mode="after")
    def _whole_episodes(self) -> PreferSection:
        if self.loss != "dpo" and self.pairs != "outcome":
            raise ValueError(f"loss = {self.loss!r} compares whole episodes: it needs pairs = 'outcome'")
        return self


class RankSection(LearningSection):
    """Options of `rank`: learning the order of the episodes of each task.

    `max_candidates`: episodes of a task that are ranked: the best and the worst ones. `imitation_weight`: of the
    imitation of the best one.
    """

    max_candidates: Annotated[int, Field(ge=2)] = 8
    imitation_weight: Annotated[float, Field(ge=0)] = 1.0


class StepTasksSection(ReadsEpisodes):
    """Options of `step_tasks`: every turn of an expert's episode becomes a task of its own.

    The expert is whoever played `episodes`, of which the successful ones count; by default the demonstrations.
    `max_tasks`: how many; by default all.
    """

    max_tasks: Count | None = None


class GenerateSection(ReadsEpisodes):
    """Options of `generate`: new training tasks like those that the policy fails at.

    Weak tasks are looked for in `episodes`, by default those of the last stage that plays. `below`: a task is weak
    whose mean success stays under it in every visit, and does not rise. `tasks`: how many new ones, with the weak ones
    as their parents in turn. `tries`: rounds in which what was refused is generated anew. `with_set`: whether the tasks
    of the set are trained on too.
    """

    reads_last_player: ClassVar[bool] = True

    below: Annotated[float, Field(gt=0, le=1)] = 0.5
    tasks: Count = 100
    tries: Count = 4
    with_set: bool = True


class StoredEpisodesSection(ReadsEpisodes):
    """A stage that learns from whole stored episodes."""

    reads_last_player: ClassVar[bool] = True

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


class DirectAdvantageSection(StoredEpisodesSection):
    """Options of `direct_advantage`: learning on stored turns, none of which is played anew.

    `continuations`: the critic learns from so many episodes that the policy plays on from each turn; with 0, from how
    the stored episodes themselves ended. `critic_epochs`, `critic_learning_rate`: of the critic, which is frozen
    afterwards. `loss`: `clipped` or `quadratic`. `clip`: how far the ratio of a turn's probabilities may leave 1 with
    `clipped`. `beta`: with `quadratic` a turn moves by its advantage / `beta` in nats.
    `epochs`, `batch_size`, `learning_rate`: of the policy; a batch is of turns.
    """

    continuations: Annotated[int, Field(ge=0)] = 0
    critic_epochs: Count = 4
    critic_learning_rate: Rate = 1e-3
    loss: Literal["clipped", "quadratic"] = "clipped"
    clip: Share = 0.2
    beta: Rate = 1.0
    epochs: Count = 1
    batch_size: Count = 32
    learning_rate: Rate = 1e-4


class TokenValuesSection(StoredEpisodesSection):
    """How values of tokens are learnt. `steps`: of the optimiser. `batch_size`: episodes of each."""

    steps: Count = 200
    batch_size: Count = 16
    learning_rate: Rate = 1e-3


class ImplicitQSection(TokenValuesSection):
    """Options of `implicit_q`: action values of tokens.

    `steps`, `batch_size`, `learning_rate`: of the optimiser; a batch is of episodes. `expectile`: 0.5 values the policy
    that played, towards 1 the best of what it did. `gamma`: the discount of a token. `conservative`: the weight that
    keeps tokens low which no episode holds. `follow`: how far the slow copy moves in each step.
    """

    expectile: Share = 0.7
    gamma: Share = 1.0
    conservative: Annotated[float, Field(ge=0)] = 0.01
    follow: Share = 0.05


class ConservativeQSection(TokenValuesSection):
    """Options of `conservative_q`: action values of tokens, bootstrapped from tokens that the policy finds likely.

    `steps`, `batch_size`, `learning_rate`: of the optimiser; a batch is of episodes, of the policy, of experts, or of
    both. `top_p`: a target's maximum is over the smallest set of tokens that holds so much of the policy's probability.
    `gamma`: the discount of a token. `follow`: how far the slow copy moves in each step.
    """

    top_p: Annotated[float, Field(gt=0, le=1)] = 0.9
    gamma: Share = 1.0
    follow: Share = 0.05


class OutcomeHeadSection(TokenValuesSection):
    """Options of `outcome_head`: the distribution of the return after each token.

    `steps`, `batch_size`, `learning_rate`: of the optimiser; a batch is of episodes, which have to be of the policy
    that is guided. `low`: the least return. `high`: the greatest. `bins`: over how many returns, these two included,
    the distribution is.
    """

    low: float = 0.0
    high: float = 1.0
    bins: Annotated[int, Field(ge=2)] = 11

    @model_validator(mode="after")
    def _ascending(self) -> OutcomeHeadSection:
        if not self.low < self.high:
            raise ValueError(f"low = {self.low} has to be below high = {self.high}")
        return self


class EvaluateGuidedSection(Section):
    """Options of `evaluate_guided`: a held-out measurement of the policy as values of tokens guide it.

    `values`: the name of the stage `implicit_q` or `outcome_head` that learnt them. `scale`, `candidates`: see the
    logit hook `value_guided`.
    """

    values: str = ""
    scale: Annotated[float, Field(ge=0)] = 1.0
    candidates: Annotated[int, Field(ge=0)] = 20


class EvaluateRerankedSection(Section):
    """Options of `evaluate_reranked`: a held-out measurement of the best of several episodes, as values choose it.

    `values`: the name of the stage `conservative_q` or `implicit_q` that learnt them. `episodes`: of each task. The one
    whose tokens have the highest mean value counts.
    """

    values: str = ""
    episodes: Annotated[int, Field(ge=2)] = 4


STAGE_OPTIONS: dict[str, type[Section]] = {
    "collect": CollectSection,
    "prefer": PreferSection,
    "rank": RankSection,
    "step_tasks": StepTasksSection,
    "generate": GenerateSection,
    "direct_advantage": DirectAdvantageSection,
    "implicit_q": ImplicitQSection,
    "conservative_q": ConservativeQSection,
    "outcome_head": OutcomeHeadSection,
    "evaluate_guided": EvaluateGuidedSection,
    "evaluate_reranked": EvaluateRerankedSection,
    "repeat": RepeatSection,
}
"""The options of the stages that come with agentgym and have options of their own, by kind."""
