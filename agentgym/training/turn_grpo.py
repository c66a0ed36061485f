"""TurnGRPOTrainer: TRL's GRPO with our rollouts and one advantage per turn.

TRL's loss already takes advantages of shape (B, T) (see its `_compute_loss`), so turn-level credit needs one method
overridden: `_generate_and_score_completions`. The loss, the optimiser and the data loading stay TRL's.
Checked against trl 1.16; `check_trl` names the method that another version has moved.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from torch.nn.utils.rnn import pad_sequence
from trl import GRPOConfig, GRPOTrainer

from agentgym.credit import BatchCredit, Group, batch_credit_of
from agentgym.credit import Estimator as DeclaredEstimator
from agentgym.errors import AgentGymError
from agentgym.evaluation.failures import Treatment
from agentgym.messages import ImagePart
from agentgym.policy.contract import Policy
from agentgym.task import Task, training_only
from agentgym.training.asynchronous.ages import correction_metrics
from agentgym.training.diagnostics import diagnose, summarise
from agentgym.training.failure_masks import apply_failure_masks
from agentgym.training.gatherers import GatheredGroup, Gatherer, play_groups
from agentgym.training.grpo_batches import (
    by_token,
    episode_returns,
    joined,
    lengths_of,
    of_the_batch,
    own_tokens,
    share_of,
    token_batch,
    trimmed,
    trl_rows,
    with_labels_on,
)
from agentgym.training.labelled_head import project_labelled_only
from agentgym.training.microbatches import DEFAULT_TOKENS, loss_in_parts, parts_alike
from agentgym.training.objectives import RowLosses, TokenBatch, WeightedTerm, losses_by_row
from agentgym.training.processes import Processes
from agentgym.training.rollouts import Rollouts
from agentgym.training.samplers import Sampler
from agentgym.training.signals import SignalProvider
from agentgym.training.signals.policy_pass import PROVIDES, PolicyPass, policy_pass
from agentgym.training.signals.provider import Rows
from agentgym.training.silence import silence_rollout_func_warning
from agentgym.training.token_masks import MaskedRow, TokenMasks, masked_row
from agentgym.training.vision_inputs import VisionInputs
from agentgym.trajectory import Trajectory

Estimator = Callable[[Group], list[np.ndarray]]
CreditCallback = Callable[[int, Sequence[Trajectory], Sequence[np.ndarray]], Mapping[str, float]]


class TurnGRPOTrainer(GRPOTrainer):
    """GRPO whose episodes are played in our environments and whose advantages are per turn.

    Of several processes that a launcher started, the first plays all episodes and gives all credit; each trains on its
    rows.

    Args:
        model, args, processing_class, callbacks: as for GRPOTrainer. `args.num_generations` is the group size.
        tasks: the training tasks.
        policy: samples from `model`, or a function that makes it from the trainer; its `version` is set to the
            optimiser step.
        rollouts: plays the episodes. label: their names begin with it, and end with the step.
        estimator: maps a group of trajectories to one advantage per turn (see agentgym.credit).
        signal_providers: compute signals that the estimator requires and no record holds
            (see agentgym.training.signals).
        failures: treatments of failures that differ from the table in agentgym.evaluation.failures.
        gather: plays the groups of a step.
        sampler: chooses the tasks of each step; None lets TRL shuffle them.
        objective: replaces the policy loss; None leaves it to TRL's `args.loss_type`.
        terms: losses that are added to it.
        credit_callback: called with (step, trajectories, advantages) after every batch of episodes; returns metrics.
        microbatch_tokens: a batch is computed in parts of at most so many tokens, padding included.
    Raises: AgentGymError if the batch does not hold whole groups, or TRL has moved a method that this class overrides.
    """

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
        failures: Mapping[str, Treatment] = {},
        gather: Gatherer = play_groups,
        sampler: Sampler | None = None,
        objective: RowLosses | None = None,
        terms: Sequence[WeightedTerm] = (),
        credit_callback: CreditCallback | None = None,
        microbatch_tokens: int = DEFAULT_TOKENS,
        **options: Any,
    ) -> None:
        check_trl()
        self._tasks, self._rollouts, self._label, self._estimator = tasks, rollouts, label, estimator
        self._signal_providers, self._failures = signal_providers, failures
        self._gather, self._sampler, self._credit_callback = gather, sampler, credit_callback
        self._prompt_rows: list[dict[str, Any]] = []  # the rows that TRL asks to be played
        self._groups: list[GatheredGroup] = []  # in the first process: what was played in this step
        self._trajectories: list[Trajectory] = []  # one per row of all processes, in their order
        self._images: Sequence[Sequence[ImagePart]] = ()  # of each row of the next forward pass
        self._masks: Sequence[MaskedRow] = ()  # likewise, of tokens that a logit hook restricted
        self._own_tokens = torch.zeros(0, 0)  # (B, T) 1 on the agent's own tokens of the next forward pass
        self._forward: tuple[Any, ...] = ()  # log-probabilities and entropies of the last pass, read by `_part_loss`
        self._objective, self._terms = objective, terms
        self._microbatch_tokens = microbatch_tokens
        dataset = Dataset.from_list([{"prompt": task.prompt or task.id, "task": i} for i, task in enumerate(tasks)])
        with silence_rollout_func_warning():
            super().__init__(
                model,
                reward_funcs=[episode_return],
                args=args,
                train_dataset=dataset,
                rollout_func=_roll_out,
                **options,
            )
        self._token_masks = TokenMasks(self.temperature)
        project_labelled_only(self.model, self._token_masks)
        if self.ref_model is not None:
            project_labelled_only(self.ref_model, self._token_masks)
        self._processes = Processes(self.accelerator.process_index, self.accelerator.num_processes)
        self.rollout_policy: Policy = policy if isinstance(policy, Policy) else policy(self)
        self._vision = VisionInputs.of(self.rollout_policy, self.model)

    def train(self, *args: Any, **options: Any) -> Any:
        """As GRPOTrainer.train; reading the held-out split raises HeldOutError meanwhile."""
        with training_only():
            return super().train(*args, **options)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """TRL's batch with its scalar advantages replaced by ours, shape (B, T)."""
        self._prompt_rows = inputs
        batch: dict[str, Any] = super()._generate_and_score_completions(inputs)
        if any(self._images):
            batch["row_images"] = list(self._images)  # TRL shuffles and splits it with the rows
        if any(self._masks):
            batch["row_masks"] = list(self._masks)  # likewise
        own_trajectories = self._processes.own_part(self._trajectories)
        second_pass = self._second_pass(batch)
        own_signals = second_pass.signals(batch, own_trajectories) if second_pass is not None else {}
        signals = _concatenated(self._processes.gather(own_signals))
        credit = self._processes.share(lambda: self._give_credit(signals))
        width, like = batch["completion_ids"].shape[1], batch["advantages"]
        own_part = self._processes.own_part
        own_credit = BatchCredit(own_part(credit.advantages), own_part(credit.token_weights))
        batch["advantages"] = by_token(own_trajectories, own_credit, width).to(like)
        batch["turn_of_token"] = by_token(own_trajectories, None, width).to(like.device)
        batch["episode_returns"] = episode_returns(own_trajectories).to(like)
        self._set_behaviour_policy(batch, second_pass)
        return batch

    def _give_credit(self, second_pass_signals: Mapping[str, Rows]) -> BatchCredit:
        """The credit of every turn of the batch. Logs how the episodes went, and trains what learns from them."""
        trajectories = self._trajectories
        given = batch_credit_of(
            trajectories,
            self._estimator,
            group_size=self._group_size(),
            signals={**self._provided_signals(), **second_pass_signals},
            train_version=self.state.global_step,
        )
        credit = apply_failure_masks(trajectories, given.advantages, self._failures)
        episodes = [trajectory for group in self._groups for trajectory in group.episodes]
        self._log(summarise(episodes) | diagnose(trajectories, credit, self._group_size()))
        self._log(_credit_statistics(trajectories, credit) | correction_metrics(second_pass_signals))
        if self.model.training:
            self._update_learners()
        if self._credit_callback is not None:
            self._log(self._credit_callback(self.state.global_step, trajectories, credit))
        return BatchCredit(credit, given.token_weights)

    def _provided_signals(self) -> dict[str, Rows]:
        """The signals that neither the records hold nor a second pass gives."""
        signals: dict[str, Rows] = {}
        for provider in self._signal_providers:
            signals.update(provider.signals(self._trajectories, self.state.global_step))
        return signals

    def _second_pass(self, batch: dict[str, Any]) -> PolicyPass | None:
        """A forward pass of the policy being trained over the batch, where the estimator requires its signals."""
        if not set(PROVIDES) & set(self._requires):
            return None
        return policy_pass(self, batch, norms="score_norms" in self._requires)

    def _set_behaviour_policy(self, batch: dict[str, Any], second_pass: PolicyPass | None) -> None:
        """Set the log-probabilities that TRL's importance ratio starts from."""
        if "sampling_per_token_logps" in batch and "importance_sampling_ratio" not in batch:
            if "old_per_token_logps" in batch:  # computed where several iterations follow
                batch["proximal_logps"] = batch["old_per_token_logps"]
            # The episodes were sampled from these, so the ratio is against them, not against another forward pass.
            batch["old_per_token_logps"] = torch.nan_to_num(batch["sampling_per_token_logps"])
        if second_pass is not None and "log_ratios" in self._requires:
            # The advantages correct the gap between sampling and now; from the old ones TRL would correct it twice.
            batch["old_per_token_logps"] = second_pass.logps
            batch.pop("importance_sampling_ratio", None)

    def _update_learners(self) -> None:
        """Let the sampler and the signal providers learn from the batch, and log what they report."""
        if self._sampler is not None:
            self._log(self._sampler.update([group.episodes for group in self._groups]))
        for provider in self._signal_providers:
            self._log(provider.update(self._trajectories))

    def _log(self, metrics: Mapping[str, float]) -> None:
        """Add to TRL's own metrics, so that every logger shows them."""
        log = self._metrics["train" if self.model.training else "eval"]
        for name, value in metrics.items():
            log[name].append(value)

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        **options: Any,
    ) -> Any:
        """TRL's, of the agent's own tokens alone, with the images of the rows. The result is kept for `_part_loss`."""
        forward, parts = super()._get_per_token_logps_and_entropies, []
        size = min(batch_size or len(input_ids), max(1, self._microbatch_tokens // input_ids.shape[1]))
        for start in range(0, len(input_ids), size):
            rows = slice(start, start + size)
            ids, mask = input_ids[rows], attention_mask[rows]
            scored = with_labels_on(model, self._own_tokens[rows], logits_to_keep)
            self._token_masks.rows, self._token_masks.completion_length = self._masks[rows], logits_to_keep
            with self.vision_kwargs(model, ids, rows) as model_kwargs:
                if model_kwargs:
                    model_kwargs["num_images"] = [len(images) for images in self._images[rows]]
                parts.append(forward(scored, ids, mask, logits_to_keep, **{**options, **model_kwargs}))
        self._forward = tuple(None if column[0] is None else joined(column) for column in zip(*parts, strict=True))
        return self._forward

    @contextmanager
    def vision_kwargs(self, model: Any, ids: torch.Tensor, rows: slice) -> Iterator[dict[str, Any]]:
        """Yield the model's arguments for the images of these rows; inside, image tokens have no probability."""
        if self._vision is None:
            yield {}
            return
        unwrapped = self.accelerator.unwrap_model(model)
        with self._vision.mask_image_logits(unwrapped):
            yield self._vision.model_kwargs(ids, self._images[rows], unwrapped)

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        """TRL's loss, in parts. Logs as guard/drift how far sampled and recomputed log-probabilities lie apart."""
        gaps: list[torch.Tensor] = []
        parts = self._parts_of(inputs)
        metrics = self._metrics["train" if model.training else "eval"]
        logged = {name: len(values) for name, values in metrics.items()}
        loss = loss_in_parts(self, model, parts, lambda part: self._part_loss(model, part, gaps))
        token_counts = np.sum(self._processes.gather([int(own_tokens(part).sum()) for *_, part in parts]), axis=0)
        for name, values in metrics.items():
            values[logged.get(name, 0) :] = of_the_batch(name, values[logged.get(name, 0) :], token_counts)
        own_gap = sum(float(gap.sum()) for gap in gaps), sum(gap.numel() for gap in gaps)
        total, count = map(sum, zip(*self._processes.gather(own_gap), strict=True))
        if count:
            metrics["guard/drift"].append(total / count)
        return loss

    def _parts_of(self, inputs: dict[str, Any]) -> list[tuple[float, float, dict[str, Any]]]:
        """Parts of a batch, equally many in all processes, each with its share of TRL's loss and of the rows."""
        if self.top_entropy_quantile < 1 or self._entropy_bonus_enabled or self.aux_loss_enabled:
            return [(1.0, 1.0, inputs)]  # these are of the batch as such
        lengths = lengths_of(inputs)
        parts = parts_alike(self._processes.gather(lengths), self._processes.rank, self._microbatch_tokens)
        shares = [(share_of(inputs, rows, self.loss_type), len(rows) / len(lengths)) for rows in parts]
        return [(*both, trimmed(inputs, rows)) for both, rows in zip(shares, parts, strict=True)]

    def _part_loss(self, model: Any, part: tuple[float, float, dict[str, Any]], gaps: list[torch.Tensor]) -> Any:
        """The weighted loss of some rows. Adds |sampled - recomputed| of their tokens to `gaps`, in nats.

        Only tokens that were not trained on yet are compared: later the policy has moved on purpose.
        """
        share, row_share, inputs = part
        self._images = inputs.get("row_images", [()] * len(inputs["prompt_ids"]))
        self._masks = inputs.get("row_masks", [()] * len(inputs["prompt_ids"]))
        self._own_tokens = own_tokens(inputs)
        loss: Any = 0.0
        if self._objective is None:
            loss = share * super()._compute_loss(model, inputs)
        else:
            self._score(model, inputs)
        logps, entropies, *_ = self._forward
        self._forward = ()
        if self._terms or self._objective is not None:
            tokens = token_batch(inputs, logps, entropies, self.max_completion_length)
            loss = loss + row_share * self._loss_by_row(tokens)
        sampled = inputs.get("sampling_per_token_logps", inputs.get("old_per_token_logps"))
        first_pass = self.args.steps_per_generation
        is_first = self._step % (first_pass * self.num_iterations) < first_pass
        if sampled is not None and is_first:
            gap = (logps.detach() - sampled).abs()[self._own_tokens.bool()]
            gaps.append(gap[~torch.isnan(gap)])
        return loss

    def _score(self, model: Any, inputs: dict[str, Any]) -> None:
        """Run the model over a batch, as TRL does for a loss of its own."""
        ids, mask = (torch.cat([inputs[f"prompt_{kind}"], inputs[f"completion_{kind}"]], 1) for kind in ("ids", "mask"))
        width = inputs["completion_ids"].size(1)
        self._get_per_token_logps_and_entropies(model, ids, mask, width, compute_entropy=True)

    def _loss_by_row(self, tokens: TokenBatch) -> torch.Tensor:
        """The mean over rows of an objective of ours and of the terms. Logs each of them."""
        losses, metrics = losses_by_row(tokens, self._objective, self._terms, kl=self.beta, progress=self._progress())
        per_process = self._processes.gather(metrics)
        self._log({name: float(np.mean([each[name] for each in per_process])) for name in metrics})
        mean: torch.Tensor = losses.mean() / (self.current_gradient_accumulation_steps if self.model.training else 1)
        return mean

    def _progress(self) -> float:
        """How much of the training is done, 0 to 1."""
        return float(min(self.state.global_step / max(self.state.max_steps, 1), 1.0))

    @property
    def _requires(self) -> tuple[str, ...]:
        return self._estimator.requires if isinstance(self._estimator, DeclaredEstimator) else ()

    def _group_size(self) -> int:
        return int(self.num_generations if self.model.training else self.num_generations_eval)

    def _play(self, indices: Sequence[int]) -> list[Trajectory]:
        """Play the episodes of the rows that TRL asked for; groups are consecutive rows of one task.

        Args:
            indices: of the task of each row, of all processes.
        """
        size = self._group_size()
        if len(indices) % size or any(len(set(indices[i : i + size])) > 1 for i in range(0, len(indices), size)):
            raise AgentGymError(
                f"A batch of {len(indices)} rows does not hold whole groups of {size}. Make "
                "per_device_train_batch_size x steps_per_generation x processes a multiple of num_generations."
            )
        step = self.state.global_step
        self.rollout_policy.version = step
        label = f"{self._label if self.model.training else 'eval'}-{step:06d}"
        tasks = [self._tasks[i] for i in indices[::size]]
        if self._sampler is not None and self.model.training:
            tasks = self._sampler.draw(len(tasks), step)
        self._groups = self._gather(
            self._rollouts, self.rollout_policy, tasks, label=label, group_size=size, progress=self._progress()
        )
        return [trajectory for group in self._groups for trajectory in group.trained]


def episode_return(completions: list[Any], episode_return: list[float | None], **_: Any) -> list[float | None]:
    """Reward function for TRL's own statistics: outcome and turn rewards of each episode; None for a failed one."""
    return episode_return


def check_trl() -> None:
    """Check that TRL has the methods that the trainer overrides. Raises: AgentGymError naming the one that moved."""
    for name, parameter in (("_generate_and_score_completions", "inputs"), ("_compute_loss", "inputs")):
        method = getattr(GRPOTrainer, name, None)
        if method is None or parameter not in inspect.signature(method).parameters:
            raise AgentGymError(
                f"TRL's GRPOTrainer.{name} has moved: agentgym is built on trl 1.16. Install trl>=1.16,<1.17."
            )


def _roll_out(prompts: list[Any], trainer: TurnGRPOTrainer) -> dict[str, Any]:
    """TRL's rollout_func: plays the episodes of its prompts, and returns one row for each."""
    processes = trainer._processes
    indices = [row["task"] for rows in processes.gather(trainer._prompt_rows) for row in rows]
    trainer._trajectories = processes.share(lambda: trainer._play(indices))
    trajectories = processes.own_part(trainer._trajectories)
    vision = trainer._vision
    trainer._images = [vision.images_of(t) if vision is not None and t.valid else () for t in trajectories]
    trainer._masks = [masked_row(trajectory) for trajectory in trajectories]
    batch = trl_rows(trajectories, trainer._tokenizer.eos_token_id)
    trainer._own_tokens = pad_sequence([torch.tensor(mask) for mask in batch["env_mask"]], batch_first=True)
    turns = [turn for trajectory in trainer._trajectories for turn in trajectory.turns]  # all processes decide alike
    if not all(len(turn.logprobs) == len(turn.token_ids) for turn in turns):
        batch["logprobs"] = None  # of a backend without them; TRL then computes what the importance ratio starts from
    returns = [None if np.isnan(value) else value for value in episode_returns(trajectories).tolist()]
    return {**batch, "episode_return": returns}


def _concatenated(parts: Sequence[Mapping[str, Rows]]) -> dict[str, Rows]:
    """Signals of consecutive parts of a batch as signals of the batch."""
    return {name: [row for part in parts for row in part[name]] for name in parts[0]}


def _credit_statistics(trajectories: Sequence[Trajectory], credit: Sequence[np.ndarray]) -> dict[str, float]:
    """The share of turns whose advantage is exactly 0, and the standard deviation of the advantages."""
    advantages = np.concatenate([a for t, a in zip(trajectories, credit, strict=True) if t.valid] or [np.zeros(1)])
    return {"credit/zero_fraction": float(np.mean(advantages == 0.0)), "credit/std": float(np.std(advantages))}
