"""The recipe's [train]: reinforcement: its episodes, credit and loss."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from agentgym import registry
from agentgym.credit import Estimator, estimator
from agentgym.credit.composition import parse_composition
from agentgym.credit.named_parts import load_part
from agentgym.errors import MissingExtraError, RecipeError, UnknownNameError
from agentgym.evaluation.failures import Treatment
from agentgym.number_types import Positive
from agentgym.options import Count, Registered, Section, Share
from agentgym.text import counted
from agentgym.training.recipe.reward_section import ScheduleSection
from agentgym.training.recipe.stage_section import MICROBATCH_TOKENS, ReadsEpisodes
from agentgym.training.recipe.train_groups import OptimiserSection, RolesSection

if TYPE_CHECKING:
    from agentgym.task.task_set import TaskSet


def _chosen_parts(given: Any) -> Any:
    """Return the options of the chosen parts: `true` means a part without options, `false` leaves a part out."""
    if not isinstance(given, Mapping):
        return given
    return {name: {} if options is True else options for name, options in given.items() if options is not False}


class ReplaySection(Section):
    """Lets the critic of an estimator learn from turns of earlier steps too."""

    updates: Count = 20
    """How many optimiser steps the critic takes after each step."""
    batch_size: Count = 64
    """How many turns an update learns from."""
    capacity: Count = 10_000
    """How many turns are kept, the last ones."""
    half_life: Positive | None = None
    """The age, in optimiser steps of the policy, at which a turn is drawn half as often as a new one. By default all
    turns are equally likely."""
    follow: Share = 0.1
    """The fraction, 0 to 1, by which the critic's slow copy moves towards the critic after each step of the critic."""
    weighted: bool = True
    """Whether a turn is weighted by its probability now divided by its probability when it was sampled."""
    max_ratio: Positive = 10.0
    """The maximum weight of a turn if turns are `weighted`."""
    runs: list[str] = []
    """The folders of other runs whose episodes are stored from the start."""
    label: str = "train-"
    """Of these runs, read only the episodes whose id begins with this text."""


class SignalsSection(Section):
    """Settings for computing signals that the estimator requires and no record has (see agentgym.training.signals)."""

    continuations: Count = 4
    """How many episodes are continued from each turn."""
    root_episodes: Annotated[int, Field(ge=2)] = 2
    """How many episodes of a group are played from the start. The others branch off them."""
    branch_before: Count = 4
    """The last turn before which an episode may branch off."""
    hindsight: Literal["learnt", "prompted"] = "learnt"
    """The estimator of hindsight: a network that is `learnt` during training, or the `prompted` policy itself."""
    exact_turns: Annotated[int, Field(ge=0, le=10)] = 4
    """Every subset of the turns is replayed in episodes of at most this number of turns."""
    learning_rate: Positive = 1e-3
    """The learning rate of the networks that are learnt for signals."""
    epochs: Count = 2
    """How many passes over a step's turns train these networks."""
    double: bool = False
    """Give the critic two heads and a slowly updated copy."""
    privileged: bool = False
    """Let the critic read the task's truth, which the policy never does."""
    replay: ReplaySection | None = None
    """Let the critic also learn from earlier steps. The critic is then `double`."""
    rank_every: Annotated[int, Field(ge=0)] = 0
    """The number of own tokens after which `rank_shaped` measures the hidden states; 0 for after each turn."""


class ReferenceSection(Section):
    """The model that the policy is kept close to or compared with. It begins as the model at the start of the stage."""

    kind: Literal["fixed", "reset", "moving_average", "best"] | None = None
    """`fixed`; `reset`, to the current weights every `reset_every` optimiser steps; `moving_average` of the weights; or
    `best`, the weights of the best validation so far. By default there is a reference if `train.kl` is above 0;
    `reset_every` and `mix` say whether it moves."""
    reset_every: Annotated[int, Field(ge=0)] = 0
    """The number of optimiser steps after which the reference becomes `mix` x the current weights + (1 - `mix`) x
    itself; 0 for never.
    """
    mix: Share = 1.0
    """The share of the current weights: 1 is a reset, a small share with `reset_every = 1` gives a moving average."""
    reset_optimiser: bool = False
    """Forget the optimiser's moments with each reset."""

    @model_validator(mode="after")
    def _keys_of_its_kind(self) -> ReferenceSection:
        steps, mixes = self.reset_every > 0, self.mix < 1
        expected = {"reset": (True, False), "moving_average": (True, True)}
        if self.kind is not None and (steps, mixes) != expected.get(self.kind, (False, False)):
            raise ValueError(
                f"reference.kind = {self.kind!r} cannot be combined with reset_every = {self.reset_every} and mix = "
                f"{self.mix}: kind 'reset' needs reset_every above 0, a moving average also needs a mix below 1, and "
                "other kinds need neither"
            )
        if self.reset_optimiser and self.moves_as != "reset":
            raise ValueError(
                "reference.reset_optimiser has an effect only where the reference is reset: set "
                "reference.reset_every above 0, or leave it out"
            )
        return self

    @property
    def moves_as(self) -> Literal["fixed", "reset", "moving_average", "best"]:
        """The kind of the reference: `kind` or, if it is None, the kind that the other keys imply."""
        if self.kind is not None:
            return self.kind
        if not self.reset_every:
            return "fixed"
        return "moving_average" if self.mix < 1 else "reset"


class ExpertsSection(ReadsEpisodes):
    """Episodes of an expert on the tasks of each step, for losses that imitate it, such as `expert_sft` and `grao`.

    With `episodes`, stored successes such as ["runs/other:collect"] are read instead of playing: for each task the
    success with the highest return. A task without a success has no expert.
    """

    player: Literal["oracle", "imperfect_oracle"] | None = None
    """The scripted player of the task set; by default it is `oracle`. Its episodes that succeed are used, one for each
    task of a step."""

    @model_validator(mode="after")
    def _plays_or_reads(self) -> ExpertsSection:
        if self.player is not None and self.episodes:
            raise ValueError(
                f"player = {self.player!r} plays new episodes, but `episodes` names recorded ones: leave out one of "
                "the two"
            )
        return self

    @property
    def scripted_player(self) -> Literal["oracle", "imperfect_oracle"]:
        """The player whose episodes are used if `episodes` is empty."""
        return self.player or "oracle"


class TermSection(Section):
    """A loss that is added to the objective's, see `agentgym list loss_terms`."""

    weight: Annotated[float, Field(allow_inf_nan=False)] = 1.0
    """The weight of the term in the loss."""
    schedule: ScheduleSection | None = None
    """A factor on the weight over the training. Without this section the weight is constant."""
    warmup: Share = 0.0
    """The share of the training over which the weight rises from 0."""
    options: dict[str, float | str | bool] = {}
    """The options of the term."""

    @property
    def weights(self) -> tuple[float, float]:
        """The lowest and the highest weight over the training."""
        factors = (1.0, 1.0) if self.schedule is None else (self.schedule.start, self.schedule.end)
        values = [self.weight * factor for factor in factors]
        return min(values), max(values)


def _requirements_of(objective: object) -> Any:
    """Return the LossRequirements that an objective declares; None for one that cannot be loaded or declares none."""
    name = str(objective).partition("(")[0].strip()
    try:
        return getattr(registry.load("objectives", name), "needs", None)
    except (UnknownNameError, MissingExtraError):  # the checks before a run report this
        return None


class TrainSection(Section):
    """Reinforcement with turn-level credit. One step plays `tasks_per_step` x `group_size` episodes."""

    steps: Annotated[int, Field(ge=0)] = 100
    """How many batches of episodes are played. 0 leaves the reinforcement out."""
    tasks_per_step: Count = 8
    """How many tasks a step plays."""
    group_size: Count = 8
    """How many episodes of each task are played and compared with each other. 1 suits methods that compare no episodes,
    such as `ppo` and `apo`."""
    estimator: str = "return_to_go"
    """How credit is given to turns, see `agentgym list estimators`."""
    estimator_options: dict[str, float | str | bool] = {}
    """The options of the estimator."""
    estimator_wrappers: list[str] = []
    """Wrappers of the estimator, innermost first, for example ["gated(threshold=1.0)", "off_policy(mode='mis')"]. One
    string may also contain all: `estimator = "rloo | gated(threshold=1.0)"`.
    """
    signals: SignalsSection = SignalsSection()
    """Settings for computing the signals that the estimator requires."""
    optimiser: OptimiserSection = OptimiserSection()
    """The optimiser's settings."""
    objective: Annotated[str, Registered("objectives")] = "dr_grpo"
    """The loss, see `agentgym list objectives`; with options as in "topr(max_ratio=1.0)"."""
    terms: Annotated[dict[str, TermSection], Registered("loss_terms")] = {}
    """Losses that are added to the objective, by their names."""
    iterations: Count = 1
    """How many optimiser steps are taken on each batch of episodes."""
    microbatch_tokens: Count = MICROBATCH_TOKENS
    """A batch is computed in parts of at most this many tokens, padding included, which are one optimiser step
    together. Fewer take less memory."""
    kl: Annotated[float, Field(ge=0)] = 0.0
    """The weight of KL(policy, reference) per token, averaged over tokens in the same way as the objective."""
    reference: ReferenceSection = ReferenceSection()
    """The reference model."""
    experts: ExpertsSection | None = None
    """Episodes that some terms and objectives need."""
    parts: Annotated[dict[str, dict[str, Any]], BeforeValidator(_chosen_parts)] = {}
    """Further parts of the training with their options, by registered name, see `agentgym list training_parts`; `true`
    is a part without options. A part that provides inputs to losses is used only if the objective or a term needs one
    of them."""
    generation: Literal["transformers", "trl"] = "transformers"
    """`transformers` samples in this process; `trl` samples through the trainer's own backend (vLLM by `trl.use_vllm =
    true`)."""
    save_every: Count = 20
    """The number of steps between two checkpoints."""
    keep_checkpoints: Count = 2
    """How many of the last checkpoints are kept."""
    validate_every: Count = 10
    """The number of steps between two validations."""
    validate_tasks: Count = 64
    """How many tasks a validation plays."""
    validate_stratum: str | None = None
    """Validate only tasks with this tag. By default all validation tasks may be drawn."""
    ends_with: Literal["last", "best"] = "last"
    """The final weights of the training: those of the `last` step, or those of the `best` validation, the first of
    equally good ones. The folder `checkpoints/best` always contains the latter."""
    until_success: Share | None = None
    """Stop as soon as success on validation tasks reaches this share. By default all steps are taken."""
    sampler: Annotated[str | None, Registered("samplers")] = None
    """The sampler that chooses the tasks of a step, for example "curriculum(window=4)", see `agentgym list samplers`.
    By default the tasks are shuffled."""
    gather: Annotated[list[str], Registered("gatherers")] = []
    """Wrappers of the gatherer that plays the groups, innermost first, for example ["max_variance(factor=2)"], see
    `agentgym list gatherers`."""
    tasks_of: str | None = None
    """Train on the tasks made by the earlier stage of this name, for example a stage of the kind `generate`."""
    staleness: Annotated[int, Field(ge=0)] = 0
    """How many batches playing may be ahead of training, see docs/scale.md. With 0, each batch is played with the
    weights that it trains. Otherwise the estimator is wrapped in `off_policy(max_lag=...)`, unless the recipe names an
    `off_policy`, and `gather` takes only wrappers that choose among finished groups."""
    group_quorum: Annotated[int, Field(ge=2)] | None = None
    """Train on a group once this many of its episodes have ended; later episodes are dropped. By default all must
    end."""
    failures: dict[str, Treatment] = {}
    """The treatment of kinds of failures, for example `{void = "mask_episode"}`; docs/evaluate.md has the table of
    kinds and treatments.
    """
    roles: RolesSection = RolesSection()
    """The agent's roles that are trained."""
    trl: dict[str, Any] = {}
    """Any further option of TRL's GRPOConfig, passed on unchanged."""

    @model_validator(mode="before")
    @classmethod
    def _estimator_of_the_objective(cls, table: Any) -> Any:
        """Use the objective's own estimator, such as a critic's, if the recipe names no estimator."""
        if not isinstance(table, dict) or "objective" not in table or "estimator" in table:
            return table
        brought = getattr(_requirements_of(table["objective"]), "estimator", "")
        return {"estimator": brought, **table} if brought else table

    @model_validator(mode="after")
    def _keys_that_fit(self) -> TrainSection:
        if self.tasks_of is not None and self.experts is not None and self.experts.episodes:
            raise ValueError(
                f"experts.episodes solve the tasks of the task set, but tasks_of = {self.tasks_of!r} trains on other "
                "tasks: leave out one of the two"
            )
        moves = self.reference.reset_every or self.trl.get("sync_ref_model")
        if moves and not self.keeps_reference:
            raise ValueError(
                "the reference model changes (reference.reset_every, trl.sync_ref_model), but nothing reads it: set "
                "kl above 0, or reference.kind and an objective or loss term that reads it"
            )
        if self.group_size == 1 and self.tasks_per_step == 1:
            raise ValueError(
                "group_size = 1 with tasks_per_step = 1 gives a step of one episode, which is too few: raise one of "
                "them"
            )
        if self.group_size == 1 and self.gather:
            raise ValueError(
                f"gather = {self.gather} chooses among the episodes of a group, so it needs a group_size above 1"
            )
        if self.group_quorum is not None and self.group_quorum > self.group_size:
            raise ValueError(
                f"group_quorum = {self.group_quorum} is larger than group_size = {self.group_size}: a group cannot "
                "have that many episodes. Lower it"
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

    @property
    def passes(self) -> int:
        """The number of optimiser steps on each batch of episodes."""
        return self.iterations * prod(int(part.passes) for part in self._made_parts())

    @property
    def reads_state_keys(self) -> bool:
        """Whether a part reads the environment's state keys."""
        return any(part.reads_state_keys for part in self._made_parts())

    def _made_parts(self) -> Iterator[Any]:
        """Yield a new instance of each named part. Raises: UnknownNameError; CreditError for unknown options."""
        return (load_part("training_parts", name, options)() for name, options in self.parts.items())

    @property
    def is_streamed(self) -> bool:
        """Whether episodes are played in the background, and groups are trained on as they finish."""
        return self.staleness > 0 or self.group_quorum is not None

    @property
    def stream_key(self) -> str:
        """The key, with its value, that makes episodes be played in the background."""
        return f"train.staleness = {self.staleness}" if self.staleness else f"group_quorum = {self.group_quorum}"

    @property
    def masks_stale_turns(self) -> bool:
        """Whether the estimator is wrapped in an `off_policy` that masks stale turns, because it names none itself."""
        return self.staleness > 0 and "off_policy" not in [part.name for part in parse_composition(self._composition)]

    @property
    def correction(self) -> Literal["none", "tis"]:
        """The mode of that `off_policy`: "none" if the objective itself corrects for old policies."""
        return "none" if getattr(_requirements_of(self.objective), "corrects_old_policies", False) else "tis"

    @property
    def _composition(self) -> str:
        return " | ".join([self.estimator, *self.estimator_wrappers])

    def check_tasks(self, task_set: TaskSet) -> None:
        """Raise RecipeError if a task set has fewer tasks than a step needs: training would then take no step."""
        if self.steps and len(task_set["train"]) < self.tasks_per_step:
            raise RecipeError(
                f"train.tasks_per_step = {self.tasks_per_step}, but {task_set.name} has only "
                f"{counted(len(task_set['train']), 'training task')}, too few for one step. Lower it, or add "
                "tasks to the set."
            )

    def autocast(self, device: str) -> Literal["bfloat16", "float16"] | None:
        """Return the dtype used for training, sampling and measuring; None for the dtype of the weights."""
        if self.trl.get("fp16"):
            return "float16"
        if "bf16" in self.trl:
            return "bfloat16" if self.trl["bf16"] else None
        from agentgym.policy.device import computes_in_bfloat16

        return "bfloat16" if computes_in_bfloat16(device) else None

    def precision_note(self, device: str) -> str | None:
        """Return a sentence if a CPU computes in bfloat16; None on a GPU, where bfloat16 is the default."""
        if device != "cpu" or not self.steps or self.autocast(device) != "bfloat16":
            return None
        from agentgym.policy.device import bfloat16_speed_up

        return (
            "Training and sampling compute in bfloat16, with float32 weights: this processor multiplies matrices "
            f"{bfloat16_speed_up():.1f} times as fast. [train.trl] bf16 = false turns it off."
        )

    def make_estimator(self) -> Estimator:
        """Make the estimator with its options and wrappers. Raises: UnknownNameError, CreditError."""
        composed = self._composition
        if self.masks_stale_turns:
            composed += f" | off_policy(mode={self.correction!r}, max_lag={self.staleness * self.passes})"
        return estimator(composed, **self.estimator_options)
