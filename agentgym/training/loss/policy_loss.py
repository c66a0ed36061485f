"""PolicyLossTrainer computes the loss of a GRPO batch in parts, with TRL's losses or our objectives and terms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from trl import GRPOTrainer

from agentgym.policy.contract import Policy
from agentgym.policy.role_adapters import in_roles, role_adapters_of
from agentgym.policy.separate_rows import separated
from agentgym.policy.silence import silence_rollout_func_warning
from agentgym.policy.token_masks import TokenMasks
from agentgym.policy.vision_inputs import VisionInputs
from agentgym.sandbox.pool.headroom import return_freed_memory, reuse_freed_memory
from agentgym.training.loss.grpo_batches import (
    OtherRows,
    joined,
    of_the_batch,
    own_tokens,
    share_of,
    token_batch,
    trimmed,
    with_labels_on,
)
from agentgym.training.loss.labelled_head import project_labelled_only
from agentgym.training.loss.microbatches import RowSizes, loss_in_parts, parts_alike, parts_of, slices_of
from agentgym.training.loss.row_data import ForwardPass, RowData, read_row_data
from agentgym.training.loss.shared_prefixes import row_sizes
from agentgym.training.loss.step_batch import BatchPass, PassPart
from agentgym.training.model.sharding import ShardingTrainer
from agentgym.training.objectives.contract import (
    EpisodeKind,
    LossRequirements,
    RowLosses,
    WeightedTerm,
    losses_by_row,
    needs_of,
    objective_share,
)
from agentgym.training.objectives.grouped import linearised, losses_of_groups
from agentgym.training.objectives.trl_losses import check_turn_credit
from agentgym.training.processes import Processes
from agentgym.training.recipe.stage_section import MICROBATCH_TOKENS
from agentgym.trajectory.record import Trajectory


class LossPart(NamedTuple):
    """Rows whose loss is computed together.

    Attributes:
        inputs: a batch in TRL's format. kind: whose episodes they are. mean_length: see TokenBatch.
        share: the part's weight in TRL's loss of the batch. row_share: the part's weight in a mean over the batch's
            rows.
        ends_group: whether this is the last part of its group, if each part holds one group's rows.
    """

    inputs: dict[str, Any]
    share: float
    row_share: float
    kind: EpisodeKind = "policy"
    mean_length: float = 1.0
    ends_group: bool = True


class GradientMeasure(Protocol):
    """Measures the gradient that each group of a step adds to the accumulated gradients of some parameters."""

    def start(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Begin a step, before its first group."""
        ...

    def note(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Read the gradients after a group."""
        ...


class PolicyLossTrainer(ShardingTrainer, GRPOTrainer):
    """GRPO that computes batches in parts, with an objective of TRL or of agentgym, and with loss terms.

    Args:
        model, args, options: the arguments of GRPOTrainer.
        objective: replaces the policy loss; None for TRL's `args.loss_type`.
        terms: losses added to the objective.
        kl: weight of the KL to the reference model, which exists if `args.beta` is not 0; None to use `args.beta`.
        microbatch_tokens: maximum number of tokens, with padding, of the parts of a batch.
        group_gradients: measures the gradient of each group; each part then holds rows of only one group.
        parts: objects that take part in each pass over a batch, see PassPart.
    """

    def __init__(
        self,
        model: Any,
        *,
        args: Any,
        objective: RowLosses | None = None,
        terms: Sequence[WeightedTerm] = (),
        kl: float | None = None,
        microbatch_tokens: int = MICROBATCH_TOKENS,
        group_gradients: GradientMeasure | None = None,
        parts: Sequence[PassPart] = (),
        **options: Any,
    ) -> None:
        self.group_gradients, self.parts = group_gradients, parts
        self._objective, self._terms, self._microbatch_tokens = objective, terms, microbatch_tokens
        self._kl = float(args.beta if kl is None else kl)
        self._pass = ForwardPass()  # the next or the most recent pass
        self._vision: VisionInputs | None = None  # None unless the policy reads images
        self._other_rows: Mapping[EpisodeKind, OtherRows] = {}  # of this step
        reuse_freed_memory()
        with silence_rollout_func_warning():
            super().__init__(model, args=args, **options)
        self.role_adapters = role_adapters_of(self.model)
        if self.role_adapters is not None:
            self.role_adapters.attach(self.model)  # after TRL has added its frozen reference copy
        self.token_masks = TokenMasks(self.temperature)
        project_labelled_only(self.model, self.token_masks)
        if self.ref_model is not None:
            project_labelled_only(self.ref_model, self.token_masks)
        self.processes = Processes(self.accelerator.process_index, self.accelerator.num_processes)

    def read_images_as(self, policy: Policy) -> None:
        """Prepare the images of rows as this policy reads them, if it reads any."""
        self._vision = VisionInputs.of(policy, self.model)

    def row_data(self, trajectory: Trajectory) -> RowData:
        """Return a trajectory's data, other than tokens, that a forward pass needs."""
        return RowData.of(trajectory, self._vision)

    def check_turn_credit(self, advantages: Sequence[np.ndarray]) -> None:
        """Raise CreditError if the loss would average the different advantages of an episode's turns."""
        if self._objective is None:
            check_turn_credit(self.importance_sampling_level, advantages)

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        **options: Any,
    ) -> Any:
        """Call TRL's method for the agent's own tokens only, with the rows' images. `_part_loss` reads the result."""
        forward, parts, masks = super()._get_per_token_logps_and_entropies, [], self.token_masks
        start, unwrapped = input_ids.shape[1] - logits_to_keep, self.accelerator.unwrap_model(model)
        prompt_mask, completion_mask = attention_mask.tensor_split([start], 1)
        batch = {"prompt_ids": input_ids[:, :start], "prompt_mask": prompt_mask, "completion_mask": completion_mask}
        sizes = row_sizes(unwrapped, batch)
        # With sharded weights, all processes take part in each pass, so they need the same number of passes.
        of_all = self.processes.gather(sizes) if self.is_fsdp_enabled else [sizes]
        for rows in slices_of(of_all, self._microbatch_tokens):
            used = attention_mask[rows].any(0).nonzero()[:, 0].tolist()
            columns, width = slice(used[0], used[-1] + 1), used[-1] + 1 - start
            ids, mask, data = input_ids[rows, columns], attention_mask[rows, columns], self._pass.rows[rows]
            separate_rows = separated(mask, [row.context_starts for row in data])
            scored = with_labels_on(model, self._pass.own_tokens[rows, :width], width, separate_rows)
            masks.rows, masks.completion_length, masks.separate_rows = [row.masks for row in data], width, separate_rows
            with self.vision_kwargs(model, ids, rows) as model_kwargs:
                if model_kwargs:
                    model_kwargs["num_images"] = [len(row.images) for row in data]
                with in_roles(unwrapped, self._pass.roles(rows)):
                    parts.append(forward(scored, ids, mask, width, **{**options, **model_kwargs}))
        self._pass.scores = tuple(joined(values, logits_to_keep) for values in zip(*parts, strict=True))
        return self._pass.scores

    @contextmanager
    def vision_kwargs(self, model: Any, ids: torch.Tensor, rows: slice) -> Iterator[dict[str, Any]]:
        """Yield the model's arguments for these rows' images; inside the block, image tokens have probability 0."""
        if self._vision is None:
            yield {}
            return
        unwrapped = self.accelerator.unwrap_model(model)
        with self._vision.mask_image_logits(unwrapped):
            yield self._vision.model_kwargs(ids, self._pass.images(rows), unwrapped)

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        """Compute the loss in parts. Log as guard/drift how far recomputed log-probabilities are from sampled ones."""
        return_freed_memory()  # what sampling has freed
        gaps: list[torch.Tensor] = []
        number = self._step // self.args.steps_per_generation % self.num_iterations
        update = BatchPass(inputs, number, lambda batch: self._scores(model, batch)[0])
        for part in self.parts:
            update = part.change_pass(update)
        inputs = update.batch
        if needs_of(self._objective).whole_groups:
            self._linearise(model, inputs)
        own_parts = self._parts_of(inputs)
        parts = [*self._parts_of_others(), *own_parts]
        metrics = self._metrics["train" if model.training else "eval"]
        logged = {name: len(values) for name, values in metrics.items()}
        of_others: list[tuple[float, Mapping[str, float]]] = []
        loss = loss_in_parts(
            self, model, parts, lambda part: self._part_loss(model, part, gaps, of_others), self._note_gradient
        )
        token_counts = np.sum(self.processes.gather([int(own_tokens(part.inputs).sum()) for part in own_parts]), axis=0)
        for name, values in metrics.items():
            values[logged.get(name, 0) :] = of_the_batch(name, values[logged.get(name, 0) :], token_counts)
        self.log_metrics(_summed(of_others))
        if model.training and self._is_first_pass:
            for part in self.parts:
                part.end_batch(self.processes.gather)
        own_gap = sum(float(gap.sum()) for gap in gaps), sum(gap.numel() for gap in gaps)
        total, count = map(sum, zip(*self.processes.gather(own_gap), strict=True))
        if count:
            metrics["guard/drift"].append(total / count)
        return loss

    def _parts_of(self, inputs: dict[str, Any]) -> list[LossPart]:
        """Split a batch into parts with their weights; all processes get the same number of parts."""
        if self.top_entropy_quantile < 1 or self._entropy_bonus_enabled or self.aux_loss_enabled:
            return [LossPart(inputs, 1.0, 1.0)]  # these options need the whole batch
        sizes = row_sizes(self.model, inputs)
        if self.group_gradients is not None and self.model.training:
            return self._parts_by_group(inputs, sizes)
        parts = parts_alike(self.processes.gather(sizes), self.processes.rank, self._microbatch_tokens)
        return [
            LossPart(trimmed(inputs, rows), share_of(inputs, rows, self.loss_type), len(rows) / len(sizes.prompts))
            for rows in parts
        ]

    def _parts_by_group(self, inputs: dict[str, Any], sizes: RowSizes) -> list[LossPart]:
        """Split a batch into parts that each hold rows of only one group."""
        groups = inputs["group_of_row"].cpu().numpy()
        parts: list[LossPart] = []
        for group in np.unique(groups):
            of_group = np.flatnonzero(groups == group)
            for part in parts_of(sizes.take(of_group), self._microbatch_tokens):
                rows = of_group[part]
                share = share_of(inputs, rows, self.loss_type)
                parts.append(LossPart(trimmed(inputs, rows), share, len(rows) / len(groups), ends_group=False))
            parts[-1] = parts[-1]._replace(ends_group=True)
        return parts

    def _note_gradient(self, part: LossPart) -> None:
        """Measure a group's gradient once its last part is accumulated."""
        if self.group_gradients is not None and part.ends_group:
            self.group_gradients.note(self.model.parameters())

    def training_step(self, *args: Any, **options: Any) -> Any:
        """Take GRPOTrainer's step; measure the groups' gradients if `group_gradients` is set."""
        if self.group_gradients is not None:
            self.group_gradients.start(self.model.parameters())
        loss = super().training_step(*args, **options)
        if self.group_gradients is not None:
            self.group_gradients.note(self.model.parameters())  # the gradient of the last group
        return_freed_memory()  # the activations' memory, which the sandboxes of the next episodes may need
        return loss

    def _parts_of_others(self) -> list[LossPart]:
        """Split those episodes of other players that a loss reads into parts; there are none in evaluation."""
        parts: list[LossPart] = []
        read = {kind for needs in self._needs_by_name().values() for kind in needs.rows if self.model.training}
        for kind, others in self._other_rows.items():
            if kind not in read:
                continue
            for rows in parts_of(row_sizes(self.model, others.batch), self._microbatch_tokens):
                share = len(rows) / others.count
                parts.append(LossPart(trimmed(others.batch, rows), 0.0, share, kind, others.mean_length))
        return parts

    def _part_loss(
        self, model: Any, part: LossPart, gaps: list[torch.Tensor], of_others: list[tuple[float, Mapping[str, float]]]
    ) -> Any:
        """Return the weighted loss of a part's rows.

        Args:
            gaps: receives |sampled - recomputed| log-probability of the own tokens, in nats. Only the first pass over a
                batch is compared, because later passes follow an update of the policy.
            of_others: receives the metrics of rows that are not the policy's, with their weight.
        """
        inputs = part.inputs
        self._begin_pass(inputs)
        loss: Any = 0.0
        if self._objective is None and part.kind == "policy":
            with self._weight_of_reference():
                share = part.share * objective_share(self._terms, self._progress())
                loss = share * super()._compute_loss(model, inputs)
        else:
            self._score(model, inputs)
        own = self._pass.own_tokens.bool()
        logps, entropies, *_ = self._end_pass()
        if self._terms or self._objective is not None:
            losses, metrics = self._losses_by_row(part, logps, entropies)
            loss = loss + part.row_share * losses.mean() / self._accumulated_batches
            if part.kind == "policy":
                self.log_metrics(metrics)
            else:
                of_others.append((part.row_share, metrics))
        sampled = inputs.get("sampling_per_token_logps", inputs.get("old_per_token_logps"))
        if sampled is not None and self._is_first_pass:
            gaps.append((logps.detach() - sampled).abs()[own])
        return loss

    @property
    def _accumulated_batches(self) -> int:
        return int(self.current_gradient_accumulation_steps) if self.model.training else 1

    @property
    def _is_first_pass(self) -> bool:
        """Return whether the current batch is trained on for the first time."""
        first_pass = self.args.steps_per_generation
        return bool(self._step % (first_pass * self.num_iterations) < first_pass)

    def _needs_by_name(self) -> dict[str, LossRequirements]:
        """Return what the objective and each term needs."""
        of_terms = {f"The term {term.name}": needs_of(term.row_losses) for term in self._terms}
        return {"The objective": needs_of(self._objective), **of_terms}

    def _score(self, model: Any, inputs: Mapping[str, Any]) -> None:
        """Run the model over a batch, as TRL does for its own losses."""
        ids, mask = (torch.cat([inputs[f"prompt_{kind}"], inputs[f"completion_{kind}"]], 1) for kind in ("ids", "mask"))
        width = inputs["completion_ids"].size(1)
        self._get_per_token_logps_and_entropies(model, ids, mask, width, compute_entropy=True)

    def _begin_pass(self, inputs: Mapping[str, Any]) -> None:
        """Prepare the next forward pass for these rows."""
        self._pass = ForwardPass(read_row_data(inputs), own_tokens(inputs))

    def _end_pass(self) -> tuple[Any, ...]:
        """Return the scores of the last forward pass, and discard the pass."""
        scores, self._pass = self._pass.scores, ForwardPass()
        return scores

    def _scores(self, model: Any, inputs: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return log-probabilities and entropies of a batch's own tokens, without gradient."""
        self._begin_pass(inputs)
        with torch.no_grad():
            self._score(model, inputs)
        return self._end_pass()

    @contextmanager
    def _weight_of_reference(self) -> Iterator[None]:
        """Set TRL's `beta` to `kl` inside the block. Outside, a nonzero `beta` only means that there is a reference."""
        beta = self.args.beta
        self.beta = self._kl
        try:
            yield
        finally:
            self.beta = beta

    def _linearise(self, model: Any, inputs: dict[str, Any]) -> None:
        """Add to the batch the losses and slopes of an objective that compares a group's episodes."""
        assert self._objective is not None
        logps, entropies, *_ = self._scores(model, inputs)
        tokens = token_batch(inputs, logps, entropies, self.max_completion_length)
        losses, slopes = losses_of_groups(self._objective, tokens, self.processes)
        inputs["objective_losses"], inputs["objective_slopes"] = losses, slopes

    def _objective_of(self, inputs: Mapping[str, Any]) -> RowLosses | None:
        """Return the objective for some rows of a batch: linearised if the batch has slopes; None if TRL computes
        it.
        """
        if "objective_slopes" not in inputs:
            return self._objective
        return linearised(inputs["objective_losses"], inputs["objective_slopes"])

    def _losses_by_row(
        self, part: LossPart, logps: torch.Tensor, entropies: torch.Tensor
    ) -> tuple[torch.Tensor, Mapping[str, float]]:
        """Return the summed losses of our objective and the terms, (B,), and their means as metrics."""
        length = self.max_completion_length
        tokens = token_batch(part.inputs, logps, entropies, length, mean_length=part.mean_length, rows=part.kind)
        if part.kind == "policy" and self.model.training and self._is_first_pass:
            for observer in self.parts:
                observer.observe(tokens)
        objective = self._objective_of(part.inputs)
        losses, metrics = losses_by_row(tokens, objective, self._terms, kl=self._kl, progress=self._progress())
        per_process = self.processes.gather(metrics)
        return losses, {name: float(np.mean([each[name] for each in per_process])) for name in metrics}

    def _progress(self) -> float:
        """Return the fraction of the training done, 0 to 1."""
        return float(min(self.state.global_step / max(self.state.max_steps, 1), 1.0))

    def log_metrics(self, metrics: Mapping[str, float]) -> None:
        """Add metrics to TRL's own, so that every logger shows them."""
        log = self._metrics["train" if self.model.training else "eval"]
        for name, value in metrics.items():
            log[name].append(value)


def _summed(metrics: Sequence[tuple[float, Mapping[str, float]]]) -> dict[str, float]:
    """Combine the metrics of parts into the batch's, each weighted by its part's share."""
    names = {name for _, of_part in metrics for name in of_part}
    return {name: sum(share * of_part[name] for share, of_part in metrics if name in of_part) for name in sorted(names)}
