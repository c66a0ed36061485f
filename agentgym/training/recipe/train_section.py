"""The recipe's [train]: reinforcement, what is played, how credit is given, and what is minimised."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from agentgym.credit import Estimator, estimator
from agentgym.credit.composition import parse_composition
from agentgym.credit.named_parts import parse_part
from agentgym.errors import RecipeError
from agentgym.evaluation.failures import Treatment
from agentgym.options import Count, Rate, Section, Share
from agentgym.training.recipe.adapt_section import AdaptSection
from agentgym.training.recipe.reward_section import ScheduleSection
from agentgym.training.recipe.stage_section import MICROBATCH_TOKENS, ReadsEpisodes

if TYPE_CHECKING:
    from agentgym.task import TaskSet


class ReplaySection(Section):
    """Lets the critic of an estimator learn from turns of earlier steps too (see ReplayedCritic).

    `updates`: optimiser steps of the critic after each step. `batch_size`: turns of each. `capacity`: turns that are
    kept, the last ones. `half_life`: turns are drawn half as often for so many optimiser steps of the policy that they
    are old; without it all alike. `follow`: how far the slow copy moves towards the critic after each of its steps.
    `weighted`: turns count by their probability now over that when they were sampled. `max_ratio`: at most so much.
    `runs`: folders of other runs whose episodes are stored from the start. `label`: of these, only the episodes whose
    id begins with it.
    """

    updates: Count = 20
    batch_size: Count = 64
    capacity: Count = 10_000
    half_life: Rate | None = None
    follow: Share = 0.1
    weighted: bool = True
    max_ratio: Rate = 10.0
    runs: list[str] = []
    label: str = "train-"


class SignalsSection(Section):
    """How signals are computed that the estimator requires and no record holds (see agentgym.training.signals).

    `continuations`: episodes that are continued from each turn. `root_episodes`: episodes of a group that are played
    from the start; the others branch off them. `branch_before`: the last turn before which they may branch off.
    `exact_turns`: in episodes of up to this many turns, every subset of the turns is replayed.
    `hindsight`: estimated by a network that is `learnt` during training, or by the `prompted` policy itself.
    `learning_rate`, `epochs`: of these networks.
    `double`: the critic has two heads and a slowly updated copy. `privileged`: the critic reads the task's truth, which
    the policy never does. `replay`: the critic also learns from earlier steps; it is `double` then.
    `rank_every`: own tokens after which `rank_shaped` measures the hidden states; 0 measures after each turn.
    """

    continuations: Count = 4
    root_episodes: Annotated[int, Field(ge=2)] = 2
    branch_before: Count = 4
    hindsight: Literal["learnt", "prompted"] = "learnt"
    exact_turns: Annotated[int, Field(ge=0, le=10)] = 4
    learning_rate: Rate = 1e-3
    epochs: Count = 2
    double: bool = False
    privileged: bool = False
    replay: ReplaySection | None = None
    rank_every: Annotated[int, Field(ge=0)] = 0


class ReferenceSection(Section):
    """The model that a policy is kept near, or compared with: the one that reinforcement starts from, unless it moves.

    `kind`: `fixed`; `reset`, to the current weights every `reset_every` optimiser steps; `moving_average` of the
    weights; `best`, the weights of the best validation so far. Without it there is a reference if `train.kl` is above
    0, fixed or as `reset_every` and `mix` say.
    `reset_every`: every so many optimiser steps it becomes `mix` x the current weights + (1 - `mix`) x itself; 0
    leaves it as it is. `mix`: 1 is a reset; a small one with `reset_every = 1` is a moving average of the weights.
    `reset_optimiser`: forget the optimiser's moments with each reset. `episodes`: that it plays of each task for the
    objective `apo`. `temperature`: of the soft maximum over their returns.
    """

    kind: Literal["fixed", "reset", "moving_average", "best"] | None = None
    reset_every: Annotated[int, Field(ge=0)] = 0
    mix: Share = 1.0
    reset_optimiser: bool = False
    episodes: Count = 8
    temperature: Rate = 0.5

    @model_validator(mode="after")
    def _keys_of_its_kind(self) -> ReferenceSection:
        steps, mixes = self.reset_every > 0, self.mix < 1
        expected = {"reset": (True, False), "moving_average": (True, True)}
        if self.kind is not None and (steps, mixes) != expected.get(self.kind, (False, False)):
            raise ValueError(
                f"reference.kind = {self.kind!r} does not go with reset_every = {self.reset_every} and mix = "
                f"{self.mix}: a reset needs reset_every above 0, a moving average also a mix below 1, others neither"
            )
        if self.reset_optimiser and self.moves_as != "reset":
            raise ValueError("reference.reset_optimiser belongs to a reference that is reset (reset_every above 0)")
        return self

    @property
    def moves_as(self) -> Literal["fixed", "reset", "moving_average", "best"]:
        """Its kind, where that follows from the other keys."""
        if self.kind is not None:
            return self.kind
        if not self.reset_every:
            return "fixed"
        return "moving_average" if self.mix < 1 else "reset"


class TeacherSection(Section):
    """A model that scores the agent's tokens for terms such as `teacher_kl`.

    `path`: a local checkpoint, a run folder or a hub name, with the vocabulary of the policy.
    """

    path: str


class ExpertsSection(ReadsEpisodes):
    """Episodes of an expert on the tasks of each step, for what imitates it, such as `expert_sft` and `grao`.

    `player`: the scripted player of the task set, by default `oracle`. Its episodes that succeed are used, one for each
    task of a step.
    `episodes`: stored successes instead, such as ["runs/other:collect"]: of each task the one with the highest return.
    A task without a success has no expert. `earlier_rounds`: of names of stages inside `repeat`.
    """

    player: Literal["oracle", "imperfect_oracle"] | None = None

    @model_validator(mode="after")
    def _plays_or_reads(self) -> ExpertsSection:
        if self.player is not None and self.episodes:
            raise ValueError(f"player = {self.player!r} plays, and `episodes` are read: leave out one of the two")
        return self

    @property
    def scripted_player(self) -> Literal["oracle", "imperfect_oracle"]:
        """Who plays, where no episodes are named."""
        return self.player or "oracle"


class CorrectionsSection(Section):
    """A policy that rewrites the agent's thoughts, for the term `thought_sft`.

    `policy`: the corrector, a registered policy. `options`: of it, for `chat_api` its `base_url` and `model`.
    `turns_per_step`: how many turns of a step are corrected at most. `max_tokens`: of a corrected thought.
    """

    policy: str = "chat_api"
    options: dict[str, Any] = {}
    turns_per_step: Count = 64
    max_tokens: Count = 256


class TermSection(Section):
    """A loss that is added to the objective's, see `agentgym list loss_terms`.

    `weight`: of it. `schedule`: a factor on the weight over the training. `warmup`: share of the training over which
    the weight rises from 0. `options`: of the term.
    """

    weight: Annotated[float, Field(allow_inf_nan=False)] = 1.0
    schedule: ScheduleSection | None = None
    warmup: Share = 0.0
    options: dict[str, float | str | bool] = {}

    @property
    def weights(self) -> tuple[float, float]:
        """The lowest and the highest weight over the training."""
        factors = (1.0, 1.0) if self.schedule is None else (self.schedule.start, self.schedule.end)
        values = [self.weight * factor for factor in factors]
        return min(values), max(values)


class TrainSection(Section):
    """Reinforcement with turn-level credit. One step plays `tasks_per_step` x `group_size` episodes.

    `steps`: how many batches of episodes are played. `tasks_per_step`: tasks of a step. `group_size`: episodes of each
    task, which are compared with each other; 1 where nothing is compared, as with `ppo` or `apo`.
    `estimator`: how credit is given to turns, see `agentgym list estimators`. `estimator_options`: its options.
    `estimator_wrappers`: for example `["gated(threshold=1.0)", "off_policy(mode='mis')"]`, innermost first; or write
    all in one string, `estimator = "rloo | gated(threshold=1.0)"`.
    `signals`: how signals are computed that the estimator requires.
    `learning_rate`: of the optimiser, constant unless `trl.lr_scheduler_type` says otherwise. `warmup_steps`: in which
    it rises, with such a scheduler. `snr_learning_rate`: scale it in each step by SNR / (1 + SNR), the signal-to-noise
    ratio of the groups' gradients. `max_grad_norm`: longer gradients are clipped to this norm.
    `objective`: the loss, see `agentgym list objectives`; with options as in "topr(max_ratio=1.0)". `terms`: losses
    that are added to it, by name. `kl`: weight of the distance from a reference model. `reference`: that model.
    `teacher`, `experts`, `corrections`: a model, episodes and a policy that some terms and objectives need.
    `iterations`: optimiser steps on each batch of episodes. `microbatch_tokens`: a batch is computed in parts of at
    most so many tokens, padding included, which are one optimiser step together; fewer take less memory.
    `generation`: `transformers` samples in this process; `trl` through the trainer's own backend (vLLM by
    `trl.use_vllm = true`).
    `save_every`: steps between two checkpoints. `keep_checkpoints`: how many of the last are kept.
    `validate_every`: steps between two validations. `validate_tasks`: tasks of each. `validate_stratum`: only those
    with this tag. `until_success`: stop as soon as success on validation tasks reaches it.
    `sampler`: what chooses the tasks of a step, for example "curriculum(window=4)", see `agentgym list samplers`; by
    default they are shuffled. `gather`: wrappers of how groups are played, innermost first, for example
    ["max_variance(factor=2)"], see `agentgym list gatherers`.
    `tasks_of`: train on the tasks that an earlier stage of this name has made, as `step_tasks` and `generate` do.
    `adapt`: train on tasks without truth instead, by the votes of each group, and mark what is measured.
    `staleness`: how many batches playing may be ahead of training, see docs/scale.md. With 0 each batch is played by
    the weights that it trains; otherwise the estimator gets `off_policy(max_lag=...)` around it, unless one is named,
    and `gather` takes only wrappers that choose among finished groups.
    `group_quorum`: a group is trained once so many of its episodes have ended, and later ones join nothing; by default
    all of them.
    `audit_every`: every so many steps the credit is compared with counterfactual credit (0: never).
    `audit_sample`: trajectories of such an audit. `audit_continuations`: episodes continued from each of their turns.
    `failures`: how kinds of failures are treated, for example `{void = "mask_episode"}`; docs/evaluate.md has the
    table of kinds and treatments.
    `trainable_roles`: only turns in these roles are trained on, for example ["planner"]; by default all. The others are
    read, and count in the credit of the episode. `role_order`: these roles are updated one after the other in each
    step, each for what the ones before it have become; by default all together. `rotate_roles_every`: after so many
    steps the adapters of [policy.lora] `roles` change hands (0: never).
    `trl`: any further option of TRL's GRPOConfig, unchanged.
    """

    steps: Annotated[int, Field(ge=0)] = 100
    tasks_per_step: Count = 8
    group_size: Count = 8
    estimator: str = "return_to_go"
    estimator_options: dict[str, float | str | bool] = {}
    estimator_wrappers: list[str] = []
    signals: SignalsSection = SignalsSection()
    learning_rate: Rate = 3e-4
    snr_learning_rate: bool = False
    warmup_steps: Annotated[int, Field(ge=0)] = 0
    objective: str = "dr_grpo"
    terms: dict[str, TermSection] = {}
    iterations: Count = 1
    microbatch_tokens: Count = MICROBATCH_TOKENS
    kl: Annotated[float, Field(ge=0)] = 0.0
    reference: ReferenceSection = ReferenceSection()
    teacher: TeacherSection | None = None
    experts: ExpertsSection | None = None
    corrections: CorrectionsSection | None = None
    max_grad_norm: Rate = 1.0
    generation: Literal["transformers", "trl"] = "transformers"
    save_every: Count = 20
    keep_checkpoints: Count = 2
    validate_every: Count = 10
    validate_tasks: Count = 64
    validate_stratum: str | None = None
    until_success: Share | None = None
    sampler: str | None = None
    gather: list[str] = []
    tasks_of: str | None = None
    adapt: AdaptSection | None = None
    staleness: Annotated[int, Field(ge=0)] = 0
    group_quorum: Annotated[int, Field(ge=2)] | None = None
    audit_every: Annotated[int, Field(ge=0)] = 0
    audit_sample: Annotated[int, Field(ge=2)] = 8
    audit_continuations: Annotated[int, Field(ge=2)] = 4
    failures: dict[str, Treatment] = {}
    trainable_roles: list[str] = []
    role_order: list[str] = []
    rotate_roles_every: Annotated[int, Field(ge=0)] = 0
    trl: dict[str, Any] = {}

    @model_validator(mode="before")
    @classmethod
    def _estimator_of_the_objective(cls, table: Any) -> Any:
        """PPO has a critic: it needs no estimator to be named."""
        if isinstance(table, dict) and str(table.get("objective", "")).partition("(")[0].strip() == "ppo":
            return {"estimator": "turn_gae", **table}
        return table

    @model_validator(mode="after")
    def _experts_solved_the_same_tasks(self) -> TrainSection:
        if self.tasks_of is not None and self.experts is not None and self.experts.episodes:
            raise ValueError(
                f"experts.episodes solved whole tasks, and tasks_of = {self.tasks_of!r} makes others: leave out one"
            )
        return self

    @model_validator(mode="after")
    def _reference_is_used(self) -> TrainSection:
        moves = self.reference.reset_every or self.trl.get("sync_ref_model")
        if moves and not self.keeps_reference:
            raise ValueError(
                "a reference that moves (reference.reset_every, trl.sync_ref_model) needs kl > 0, or reference.kind "
                "and an objective or a term that reads it"
            )
        return self

    @property
    def reference_weight(self) -> float:
        """The weight of the distance from the reference model."""
        return float(self.trl.get("beta", self.kl))

    @property
    def keeps_reference(self) -> bool:
        """Whether there is a reference model."""
        return bool(self.reference_weight) or self.reference.kind is not None

    @model_validator(mode="after")
    def _groups_of_one(self) -> TrainSection:
        if self.group_size == 1 and self.tasks_per_step == 1:
            raise ValueError("group_size = 1 with tasks_per_step = 1 is a step of one episode: raise one of them")
        if self.group_size == 1 and self.gather:
            raise ValueError(f"gather = {self.gather} chooses among episodes of a group, and group_size = 1 plays one")
        return self

    @model_validator(mode="after")
    def _quorum_of_a_group(self) -> TrainSection:
        if self.group_quorum is not None and self.group_quorum > self.group_size:
            raise ValueError(f"group_quorum = {self.group_quorum} is more than the group_size = {self.group_size}")
        return self

    @model_validator(mode="after")
    def _tasks_of_one_kind(self) -> TrainSection:
        if self.adapt is not None and self.tasks_of is not None:
            raise ValueError(
                f"tasks_of = {self.tasks_of!r} and adapt both say which tasks are trained on: leave one of them out"
            )
        return self

    @property
    def passes(self) -> int:
        """Optimiser steps on each batch of episodes."""
        return self.iterations * max(len(self.role_order), 1)

    @property
    def is_streamed(self) -> bool:
        """Episodes are played in the background, and groups are trained on as they finish."""
        return self.staleness > 0 or self.group_quorum is not None

    @property
    def masks_stale_turns(self) -> bool:
        """The estimator gets an `off_policy` that masks turns older than the staleness, as it names none itself."""
        return self.staleness > 0 and "off_policy" not in [part.name for part in parse_composition(self._composition)]

    @property
    def correction(self) -> Literal["none", "tis"]:
        """The mode of that `off_policy`: none where the objective corrects by itself."""
        return "none" if parse_part(self.objective).name == "decoupled_ppo" else "tis"

    @property
    def _composition(self) -> str:
        return " | ".join([self.estimator, *self.estimator_wrappers])

    def check_tasks(self, task_set: TaskSet) -> None:
        """Raises: RecipeError if a task set has too few tasks for one step, of which training would take none."""
        if self.steps and len(task_set["train"]) < self.tasks_per_step:
            raise RecipeError(
                f"train.tasks_per_step = {self.tasks_per_step}: {task_set.name} has {len(task_set['train'])} "
                "training task(s), so no step could be filled. Lower it, or give the set more tasks."
            )

    def autocast(self, device: str) -> Literal["bfloat16", "float16"] | None:
        """The dtype that training computes in, and so sampling and measuring too; None for that of the weights."""
        if self.trl.get("fp16"):
            return "float16"
        return "bfloat16" if self.trl.get("bf16", device != "cpu") else None

    def make_estimator(self) -> Estimator:
        """Make the estimator with its options and wrappers. Raises: UnknownNameError, CreditError."""
        composed = self._composition
        if self.masks_stale_turns:
            composed += f" | off_policy(mode={self.correction!r}, max_lag={self.staleness * self.passes})"
        return estimator(composed, **self.estimator_options)
