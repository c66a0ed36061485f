"""TurnGRPOTrainer: TRL's GRPO with agentgym's rollouts and one advantage per turn.

TRL's loss already takes advantages of shape (B, T) (see its `_compute_loss`), so turn-level credit overrides only
`_generate_and_score_completions`. The loss, the optimiser and the data loading stay TRL's.
Checked against trl 1.16; `check_trl` names the method that another version has moved.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from torch.nn.utils.rnn import pad_sequence
from trl import GRPOConfig, GRPOTrainer

from agentgym.credit import Estimator as DeclaredEstimator
from agentgym.credit import Group
from agentgym.credit.batch import BatchCredit, credit_of_groups, groups_of
from agentgym.errors import AgentGymError, CreditError
from agentgym.evaluation.diagnostics import (
    Pace,
    credit_metrics,
    diagnose,
    engine_metrics,
    movers,
    summarise,
)
from agentgym.evaluation.failures import Treatment
from agentgym.policy.contract import Policy
from agentgym.rollout.rollouts import Rollouts
from agentgym.task.definition import Task
from agentgym.task.task_set import TaskSet
from agentgym.training.gatherers import GatheredGroup, Gatherer, StepRequest, play_groups
from agentgym.training.loss.grpo_batches import (
    apply_failure_masks,
    by_token,
    check_roles,
    episode_returns,
    have_logprobs,
    input_column,
    row_columns,
    trained_turns,
    trl_rows,
)
from agentgym.training.loss.policy_loss import PolicyLossTrainer
from agentgym.training.loss.row_data import ROW_DATA, ForwardPass
from agentgym.training.loss.step_batch import StepBatch, role_metrics
from agentgym.training.parts import TrainingPart
from agentgym.training.samplers import Sampler, Shuffled
from agentgym.training.signals.policy_pass import MEASURES, PROVIDES, PolicyPass, policy_pass
from agentgym.training.signals.provider import SignalProvider, SignalRows
from agentgym.trajectory.record import Trajectory

Estimator = Callable[[Group], list[np.ndarray]]


@dataclass(frozen=True, slots=True)
class StepEpisodes:
    """The episodes of a training step.

    Attributes:
        trajectories: one per row of all processes, in row order.
        untrained_turns: by episode id, the number of initial turns that are not trained on.
        groups: the gathered groups; empty in all but the first process.
    """

    trajectories: list[Trajectory] = field(default_factory=list)
    untrained_turns: Mapping[str, int] = field(default_factory=dict)
    groups: Sequence[GatheredGroup] = ()

    @classmethod
    def from_groups(cls, groups: Sequence[GatheredGroup]) -> StepEpisodes:
        """Make the rows of a step from its groups; `groups` stays empty."""
        return cls(
            [trajectory for group in groups for trajectory in group.trained],
            {name: turns for group in groups for name, turns in group.untrained_turns.items()},
        )


class TurnGRPOTrainer(PolicyLossTrainer):
    """GRPO with episodes played in agentgym's environments and one advantage per turn.

    With several processes, the first plays all episodes and computes all credit; each process trains on its own rows.

    Args:
        model, args, processing_class, callbacks: the arguments of GRPOTrainer. `args.num_generations` is the group
            size.
        tasks: the training tasks.
        policy: samples from `model`; may be a function that makes the policy from the trainer. The policy's `version`
            is set to the optimiser step.
        rollouts: plays the episodes, with the config that its schedule gives for each step.
        label: prefix of the episodes' labels; the step is appended.
        estimator: maps a group of trajectories to one advantage per turn (see agentgym.credit).
        signal_providers: compute the signals that the estimator requires and no record has
            (see agentgym.training.signals).
        trainable_roles: only turns in these roles are trained on; empty for all turns.
        failures: failure treatments that override the table in agentgym.evaluation.failures.
        gather: plays the groups of a step.
        sampler: chooses the tasks of each step, of which TRL only says how many there are; None shuffles them.
        parts: supply further inputs of the objective and the terms, take part in each pass over a batch, and learn from
            the episodes.
        before_playing: called in every process before the first process plays.
        options: options of PolicyLossTrainer, such as `objective`, and of GRPOTrainer.

    Raises: AgentGymError if the batch does not consist of whole groups, or TRL has moved a method that this class
        overrides.
    """

    parts: Sequence[TrainingPart]

    def __init__(
        self,
        model: Any,
        *,
        args: GRPOConfig,
        tasks: Sequence[Task],
        policy: Policy | Callable[[TurnGRPOTrainer], Policy],
        rollouts: Rollouts,
        estimator: Estimator,
        label: str = "train",
        signal_providers: Sequence[SignalProvider] = (),
        trainable_roles: Sequence[str] = (),
        failures: Mapping[str, Treatment] = {},
        gather: Gatherer = play_groups,
        sampler: Sampler | None = None,
        parts: Sequence[TrainingPart] = (),
        before_playing: Callable[[], None] = lambda: None,
        **options: Any,
    ) -> None:
        check_trl()
        self._tasks, self._rollouts, self._label, self._estimator = tasks, rollouts, label, estimator
        self._signal_providers, self._failures = signal_providers, failures
        self._trainable_roles = tuple(trainable_roles)
        self._gather = gather
        self._sampler = Shuffled("shuffled", tasks, args.seed) if sampler is None else sampler
        self.before_playing = before_playing
        self._pace = Pace()
        self._prompt_rows: list[dict[str, Any]] = []  # the rows that TRL has asked for
        self._episodes = StepEpisodes()  # the latest step's episodes
        dataset = Dataset.from_list([{"prompt": task.prompt or task.id, "task": i} for i, task in enumerate(tasks)])
        super().__init__(
            model,
            reward_funcs=[episode_return],
            args=args,
            train_dataset=dataset,
            rollout_func=_roll_out,
            parts=parts,
            **options,
        )
        self.rollout_policy: Policy = policy if isinstance(policy, Policy) else policy(self)
        self.read_images_as(self.rollout_policy)

    def train(self, *args: Any, **options: Any) -> Any:
        """Train as GRPOTrainer does; meanwhile, reading the held-out split raises HeldOutError.

        Raises: CreditError if no part provides an input that the objective or a term needs.
        """
        self._check_needs()
        with TaskSet.training_only():
            return super().train(*args, **options)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """Return TRL's batch with per-token advantages, shape (B, T), in place of TRL's scalar advantages."""
        self._prompt_rows = inputs
        batch: dict[str, Any] = super()._generate_and_score_completions(inputs)
        batch[ROW_DATA] = list(self._pass.rows)
        own_trajectories = self.processes.own_part(self._episodes.trajectories)
        second_pass = self._second_pass(batch)
        own_signals = second_pass.signals(batch, own_trajectories) if second_pass is not None else {}
        signals = _concatenated(self.processes.gather(own_signals))
        credit = self.processes.share(lambda: self._give_credit(signals))
        self.check_turn_credit(credit.advantages)
        width, like = batch["completion_ids"].shape[1], batch["advantages"]
        own_part = self.processes.own_part
        own_credit = BatchCredit(own_part(credit.advantages), own_part(credit.token_weights))
        batch["advantages"] = by_token(own_trajectories, own_credit, width).to(like)
        batch["turn_of_token"] = by_token(own_trajectories, None, width).to(like.device)
        batch["episode_returns"] = episode_returns(own_trajectories).to(like)
        self._add_loss_inputs(batch, own_trajectories)
        self._set_behaviour_policy(batch, second_pass)
        self.log_metrics(role_metrics(own_trajectories, batch))
        return batch

    def _check_needs(self) -> None:
        """Check that the losses' needs are met. Raises: CreditError naming the loss and the missing input."""
        provided = {name for part in self.parts for name in part.provides}
        for loss, needs in self._needs_by_name().items():
            absent = ["reference"] if needs.reference and not self.args.beta else []
            absent += [name for name in needs.from_parts if name not in provided]
            if absent:
                raise CreditError(
                    f"{loss} needs {absent[0].replace('_', ' ')}, but TurnGRPOTrainer was created without it. Pass it "
                    "to the trainer, or choose another loss."
                )

    def _add_loss_inputs(self, batch: dict[str, Any], own_trajectories: Sequence[Trajectory]) -> None:
        """Add the columns that objectives and terms read: groups, outcomes, and the inputs from parts.

        Also keep the parts' other rows beside the batch: episodes that the policy did not play.
        """
        size, trajectories = self._group_size(), self._episodes.trajectories
        first_row = self.processes.rank * len(own_trajectories)
        groups = torch.arange(first_row, first_row + len(own_trajectories)) // size
        columns = row_columns(own_trajectories, groups, trajectories, size)
        batch.update({name: values.to(batch["advantages"].device) for name, values in columns.items()})
        rollouts = self._rollouts.at_step(self.state.global_step)
        step = StepBatch(batch, trajectories, size, rollouts, self)
        for part in self.parts:
            given = part.columns(step)
            batch.update({input_column(name): values.to(batch["advantages"]) for name, values in given.items()})
        others = {kind: rows for part in self.parts for kind, rows in part.other_rows(step).items()}
        self._other_rows = {kind: rows for kind, rows in others.items() if rows.batch}

    @property
    def end_and_pad_ids(self) -> tuple[int, int]:
        """Return the token ids for the end of a sequence and for padding."""
        return int(self._tokenizer.eos_token_id), int(self._tokenizer.pad_token_id)

    def _give_credit(self, second_pass_signals: Mapping[str, SignalRows]) -> BatchCredit:
        """Compute the credit of every turn of the batch, log the episodes' metrics, and let everything that learns from
        the batch do so.
        """
        trajectories = self._episodes.trajectories
        groups = groups_of(
            trajectories,
            self._group_size(),
            signals={**self._provided_signals(), **second_pass_signals},
            train_version=self.state.global_step,
        )
        given = credit_of_groups(groups, self._estimator)
        credit = apply_failure_masks(trajectories, given.advantages, self._failures)
        episodes = [trajectory for group in self._episodes.groups for trajectory in group.episodes]
        unaided = [trajectory for group in self._episodes.groups for trajectory in group.unaided]
        self.log_metrics(summarise(unaided or episodes) | diagnose(trajectories, credit, self._group_size()))
        self.log_metrics(GatheredGroup.metrics(self._episodes.groups))
        self.log_metrics(credit_metrics(trajectories, credit, second_pass_signals))
        self.log_metrics(movers(groups, self._estimator, given.advantages))
        if self.model.training:
            self.log_metrics(self._pace.metrics(episodes) | engine_metrics(self._rollouts.config.engine))
            self._update_learners()
        for part in self.parts:
            self.log_metrics(part.credited(self.state.global_step, trajectories, credit))
        return BatchCredit(credit, given.token_weights)

    def _provided_signals(self) -> dict[str, SignalRows]:
        """Return the signals from the signal providers."""
        signals: dict[str, SignalRows] = {}
        for provider in self._signal_providers:
            signals.update(provider.signals(self._episodes.trajectories, self.state.global_step))
        return signals

    def _second_pass(self, batch: dict[str, Any]) -> PolicyPass | None:
        """Run the trained policy over the batch if the estimator requires signals of this pass; else return None."""
        if not set(PROVIDES) & set(self._requires):
            return None
        measures = [name for name in MEASURES if name in self._requires]
        for trajectory in self._episodes.trajectories if measures else ():
            trajectory.require_one_row(f"an estimator of {measures[0]}")
        return policy_pass(self, batch, measures=measures)

    def _set_behaviour_policy(self, batch: dict[str, Any], second_pass: PolicyPass | None) -> None:
        """Set the old log-probabilities of TRL's importance ratio."""
        if "sampling_per_token_logps" in batch and "importance_sampling_ratio" not in batch:
            if "old_per_token_logps" in batch:  # computed if several iterations follow
                batch["proximal_logps"] = batch["old_per_token_logps"]
            # The episodes were sampled from these, so the ratio is against them, not against another forward pass.
            batch["old_per_token_logps"] = batch["sampling_per_token_logps"]
        if second_pass is not None and "log_ratios" in self._requires:
            # The advantages already correct for the old policy. If TRL got that policy's log-probabilities, it would
            # correct a second time.
            batch["old_per_token_logps"] = second_pass.logps
            batch.pop("importance_sampling_ratio", None)

    def _update_learners(self) -> None:
        """Let the sampler, the signal providers and the parts learn from the batch, and log their metrics."""
        self.log_metrics(self._sampler.update([own for group in self._episodes.groups if (own := group.unaided)]))
        for provider in self._signal_providers:
            self.log_metrics(provider.update(self._episodes.trajectories))
        for part in self.parts:
            self.log_metrics(part.update(self._episodes.trajectories))

    @property
    def _requires(self) -> tuple[str, ...]:
        return self._estimator.requires if isinstance(self._estimator, DeclaredEstimator) else ()

    def _group_size(self) -> int:
        return int(self.num_generations if self.model.training else self.num_generations_eval)

    def _play_shared(self, indices: Sequence[int]) -> StepEpisodes:
        """Play a step in the first process, and share the rows, but not the groups, with the other processes."""
        groups: list[GatheredGroup] = []

        def play() -> StepEpisodes:
            groups.extend(self._play(indices))
            return StepEpisodes.from_groups(groups)

        self._episodes = replace(self.processes.share(play), groups=groups)
        return self._episodes

    def _play(self, indices: Sequence[int]) -> list[GatheredGroup]:
        """Play the episodes of the rows that TRL requested; a group is consecutive rows of one task.

        Args:
            indices: the task index of each row of all processes.
        """
        size = self._group_size()
        if len(indices) % size or any(len(set(indices[i : i + size])) > 1 for i in range(0, len(indices), size)):
            raise AgentGymError(
                f"A batch of {len(indices)} rows is not made of whole groups of {size} rows. Make "
                "per_device_train_batch_size x steps_per_generation x processes a multiple of num_generations."
            )
        step = self.state.global_step
        self.rollout_policy.version = step
        label = f"{self._label if self.model.training else 'eval'}-{step:06d}"
        tasks = [self._tasks[i] for i in indices[::size]]

        def draw(count: int, further: int = 0) -> list[Task]:
            return self._sampler.draw(count, step // self.num_iterations, further)

        if self.model.training:
            tasks = draw(len(tasks))
        return self._gather(
            StepRequest(self._rollouts.at_step(step), self.rollout_policy, tasks, label, size, self._progress(), draw)
        )


def episode_return(completions: list[Any], episode_return: list[float | None], **_: Any) -> list[float | None]:
    """Return each episode's outcome plus turn rewards, None if failed: a reward function for TRL's statistics."""
    return episode_return


def check_trl() -> None:
    """Check that TRL has the overridden methods. Raises: AgentGymError naming the method that moved."""
    for name, parameter in (("_generate_and_score_completions", "inputs"), ("_compute_loss", "inputs")):
        method = getattr(GRPOTrainer, name, None)
        if method is None or parameter not in inspect.signature(method).parameters:
            raise AgentGymError(
                f"The installed TRL has no GRPOTrainer.{name} with the parameter that agentgym passes: agentgym was "
                "written for trl 1.16. Install trl>=1.16,<1.17."
            )


def _roll_out(prompts: list[Any], trainer: TurnGRPOTrainer) -> dict[str, Any]:
    """Play the episodes of TRL's prompts, and return one row for each: TRL's rollout_func."""
    processes = trainer.processes
    indices = [row["task"] for rows in processes.gather(trainer._prompt_rows) for row in rows]
    trainer.before_playing()
    step = trainer._play_shared(indices)
    trajectories = processes.own_part(step.trajectories)
    untrained, roles = step.untrained_turns, trainer._trainable_roles
    batch = trl_rows(trajectories, trainer._tokenizer.eos_token_id, untrained, roles)
    own_tokens = pad_sequence([torch.tensor(mask) for mask in batch["env_mask"]], batch_first=True)
    trainer._pass = ForwardPass([trainer.row_data(trajectory) for trajectory in trajectories], own_tokens)
    turns = [  # so that all processes decide in the same way
        turn for t in step.trajectories for turn in compress(t.turns, trained_turns(t, untrained, roles))
    ]
    check_roles(step.trajectories, roles)
    if not have_logprobs(turns):
        batch["logprobs"] = None  # TRL computes the old log-probabilities for the importance ratio
    returns = [None if np.isnan(value) else value for value in episode_returns(trajectories).tolist()]
    return {**batch, "episode_return": returns}


def _concatenated(parts: Sequence[Mapping[str, SignalRows]]) -> dict[str, SignalRows]:
    """Concatenate the signals of a batch's consecutive parts."""
    return {name: [row for part in parts for row in part[name]] for name in parts[0]}
