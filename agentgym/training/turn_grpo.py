"""TurnGRPOTrainer: TRL's GRPO with our rollouts and one advantage per turn.

TRL's loss already takes advantages of shape (B, T) (see `_compute_loss`), so turn-level credit needs one
method overridden: `_generate_and_score_completions`. The loss, the optimiser and the data loading stay TRL's.
Checked against trl 1.16; `check_trl` names the mismatch if another version moved the seam.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # rollout_func is marked experimental, once per process

import numpy as np
import torch
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from agentgym.credit import Estimator as DeclaredEstimator
from agentgym.credit import Group, batch_advantages
from agentgym.errors import AgentGymError
from agentgym.evaluation.failures import Treatment
from agentgym.messages import ImagePart
from agentgym.policy.contract import Policy, Sampling
from agentgym.task import Task, training_only
from agentgym.training.branching import Branching
from agentgym.training.curriculum import Curriculum
from agentgym.training.diagnostics import diagnose
from agentgym.training.failure_masks import apply_failure_masks
from agentgym.training.rollouts import Rollouts
from agentgym.training.signals import SignalProvider, with_provided_signals, with_signal_rows
from agentgym.training.signals.policy_pass import PROVIDES, PolicyPass, policy_pass
from agentgym.training.vision_inputs import VisionInputs
from agentgym.trajectory import Trajectory

Estimator = Callable[[Group], list[np.ndarray]]
Watcher = Callable[[int, Sequence[Trajectory], Sequence[np.ndarray]], Mapping[str, float]]


class TurnGRPOTrainer(GRPOTrainer):
    """GRPO whose episodes run in our environments and whose advantages are per turn.

    Args:
        model, args, processing_class, callbacks: as for GRPOTrainer. `args.num_generations` is the group size.
        tasks: the training tasks.
        policy: samples from `model`; its `version` is set to the optimiser step.
        rollouts: plays the episodes.
        estimator: from a group of trajectories to one advantage per turn (see agentgym.credit).
        sampling: of the agent's turns.
        sources: of signals that the estimator needs and no record holds (see agentgym.training.signals).
        failures: treatments of failures that differ from the table in agentgym.evaluation.failures.
        branching: how groups are grown as trees; None plays every episode from the start.
        curriculum: chooses the tasks of each step by their difficulty; None: TRL shuffles them.
        watch: called with (step, trajectories, advantages) after every batch of episodes; returns figures for the log.
    Raises: AgentGymError if the batch does not hold whole groups, or TRL's seam has moved.
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
        sampling: Sampling,
        sources: Sequence[SignalProvider] = (),
        failures: Mapping[str, Treatment] = {},
        branching: Branching | None = None,
        watch: Watcher | None = None,
        curriculum: Curriculum | None = None,
        **options: Any,
    ) -> None:
        check_trl()
        self._tasks, self._rollouts, self._estimator = tasks, rollouts, estimator
        self._turn_sampling, self._sources, self._branching, self._watch = sampling, sources, branching, watch
        self._curriculum = curriculum
        self._failures = failures
        self._rows: list[dict[str, Any]] = []
        self._played: list[Trajectory] = []
        self._shown: Sequence[Sequence[ImagePart]] = ()  # the images of each row that is looked at next
        self._seen_logps: torch.Tensor | None = None
        dataset = Dataset.from_list([{"prompt": task.prompt or task.id, "task": i} for i, task in enumerate(tasks)])
        super().__init__(
            model, reward_funcs=[episode_return], args=args, train_dataset=dataset, rollout_func=_roll_out, **options
        )
        self.rollout_policy: Policy = policy if isinstance(policy, Policy) else policy(self)
        self._sight = VisionInputs.of(self.rollout_policy, self.model)

    def train(self, *args: Any, **options: Any) -> Any:
        """As GRPOTrainer.train; the held-out split cannot be read meanwhile."""
        with training_only():
            return super().train(*args, **options)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """TRL's batch with its scalar advantages replaced by ours, shape (B, T)."""
        self._rows = inputs
        batch: dict[str, Any] = super()._generate_and_score_completions(inputs)
        if any(self._shown):
            batch["shown"] = list(self._shown)  # TRL shuffles and splits it with the rows
        played, size = self._played, self._group_size()
        groups = [Group.from_trajectories(played[start : start + size]) for start in range(0, len(played), size)]
        groups = with_provided_signals(groups, played, self._sources, self.state.global_step)
        groups = [replace(group, train_version=self.state.global_step) for group in groups]
        looked = self._look_again(batch)
        if looked is not None:
            groups = with_signal_rows(groups, looked.signals(batch, played))
        credit = [one for found in batch_advantages(self._estimator, groups) for one in found]
        credit = apply_failure_masks(played, credit, self._failures)
        spread = torch.zeros(batch["completion_ids"].shape, dtype=batch["advantages"].dtype)
        for row, (trajectory, advantages) in enumerate(zip(played, credit, strict=True)):
            if trajectory.valid:
                for (start, end), advantage in zip(trajectory.turn_spans(), advantages, strict=True):
                    spread[row, start:end] = float(advantage)
        batch["advantages"] = spread.to(batch["advantages"].device)
        if "sampling_per_token_logps" in batch and "importance_sampling_ratio" not in batch:
            # what was sampled from is the behaviour policy: the ratio is against it, not against a second forward
            batch["old_per_token_logps"] = torch.nan_to_num(batch["sampling_per_token_logps"])
        if looked is not None and "log_ratios" in self._requires:
            # the advantages carry what lies between sampling and now: TRL's ratio starts from here, or it counts twice
            batch["old_per_token_logps"] = looked.logps
            batch.pop("importance_sampling_ratio", None)
        self._measure(played, credit)
        if self._curriculum is not None and self.model.training:
            starts = range(0, len(played), size)
            for name, value in self._curriculum.note([played[start : start + size] for start in starts]).items():
                self._metrics["train"][name].append(value)
        for source in self._sources if self.model.training else ():
            for name, value in source.update(played).items():
                self._metrics["train"][name].append(value)
        if self._watch is not None:
            for name, value in self._watch(self.state.global_step, played, credit).items():
                self._metrics["train" if self.model.training else "eval"][name].append(value)
        return batch

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        *args: Any,
        batch_size: int | None = None,
        **options: Any,
    ) -> Any:
        """TRL's, of rows with their images, remembered for `_compute_loss`."""
        look, rows = super()._get_per_token_logps_and_entropies, batch_size or len(input_ids)
        if self._sight is None:
            found = look(model, input_ids, attention_mask, *args, batch_size=rows, **options)
        else:
            parts = []
            for start in range(0, len(input_ids), rows):
                some = slice(start, start + rows)
                with self.seeing(model, input_ids[some], some) as beside:
                    if beside:
                        beside["num_images"] = [len(images) for images in self._shown[some]]
                    parts.append(look(model, input_ids[some], attention_mask[some], *args, **{**options, **beside}))
            found = tuple(None if column[0] is None else _joined(column) for column in zip(*parts, strict=True))
        self._seen_logps = found[0].detach()
        return found

    @contextmanager
    def seeing(self, model: Any, ids: torch.Tensor, rows: slice) -> Iterator[dict[str, Any]]:
        """What the model is to be given beside the tokens of these rows; meanwhile it writes no image tokens."""
        if self._sight is None:
            yield {}
            return
        inner = self.accelerator.unwrap_model(model)
        with self._sight.silenced(inner):
            yield self._sight.beside(ids, self._shown[rows], inner)

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        """TRL's; the gap of tokens not trained on yet to their sampling is logged as guard/drift, in nats."""
        self._shown = inputs.get("shown", [()] * len(inputs["prompt_ids"]))
        loss: torch.Tensor = super()._compute_loss(model, inputs)
        seen, self._seen_logps = self._seen_logps, None
        sampled = inputs.get("sampling_per_token_logps", inputs.get("old_per_token_logps"))
        once = self.args.steps_per_generation
        if seen is not None and sampled is not None and self._step % (once * self.num_iterations) < once:
            gap = (seen - sampled).abs()[(inputs["completion_mask"] * inputs.get("tool_mask", 1)).bool()]
            gap = gap[~torch.isnan(gap)]
            if gap.numel():
                self._metrics["train" if model.training else "eval"]["guard/drift"].append(float(gap.mean()))
        return loss

    @property
    def _requires(self) -> tuple[str, ...]:
        return self._estimator.requires if isinstance(self._estimator, DeclaredEstimator) else ()

    def _look_again(self, batch: dict[str, Any]) -> PolicyPass | None:
        """What the policy being trained says of the batch, where the estimator asks for that."""
        if not set(PROVIDES) & set(self._requires):
            return None
        return policy_pass(self, batch, norms="score_norms" in self._requires)

    def _group_size(self) -> int:
        return int(self.num_generations if self.model.training else self.num_generations_eval)

    def _play(self) -> list[Trajectory]:
        """The episodes of the rows that TRL asked for; groups are consecutive rows of one task."""
        size = self._group_size()
        indices = [row["task"] for row in self._rows]
        if len(indices) % size or any(len(set(indices[i : i + size])) > 1 for i in range(0, len(indices), size)):
            raise AgentGymError(
                f"A device's batch of {len(indices)} rows does not hold whole groups of {size}. Make "
                "per_device_train_batch_size x steps_per_generation a multiple of num_generations."
            )
        step = self.state.global_step
        self.rollout_policy.version = step
        rank = self.accelerator.process_index
        label = f"{'train' if self.model.training else 'eval'}-{step:06d}" + (f"-rank{rank}" if rank else "")
        tasks = [self._tasks[i] for i in indices[::size]]
        if self._curriculum is not None and self.model.training:
            tasks = self._curriculum.draw(len(tasks), step)
        play = self._rollouts.play
        if self._branching is not None:
            play = partial(self._branching.grow, self._rollouts)
        return play(
            self.rollout_policy,
            tasks,
            run=label,
            group_size=size,
            sampling=self._turn_sampling,
            progress=min(step / max(self.state.max_steps, 1), 1.0),
        )

    def _measure(self, played: Sequence[Trajectory], credit: Sequence[np.ndarray]) -> None:
        """What happened in the episodes, into TRL's own metrics, so that every logger shows it."""
        log = self._metrics["train" if self.model.training else "eval"]
        for name, value in (summary(played) | diagnose(played, credit, self._group_size())).items():
            log[name].append(value)
        flat = np.concatenate([a for t, a in zip(played, credit, strict=True) if t.valid] or [np.zeros(1)])
        log["credit/zero_fraction"].append(float(np.mean(flat == 0.0)))
        log["credit/std"].append(float(np.std(flat)))


def summary(played: Sequence[Trajectory]) -> dict[str, float]:
    """Means over the valid trajectories: success, turns, share of calls that ran, and how they stopped."""
    valid = [t for t in played if t.valid]
    found = {"failed": float(len(played) - len(valid))}
    if not valid:
        return found
    judged = [t.success for t in valid if t.success is not None]
    calls = [result for t in valid for turn in t.turns for result in turn.results]
    if judged:
        found["success"] = float(np.mean(judged))
    if calls:
        found["calls_ok"] = float(np.mean([result.ok for result in calls]))
    found["turns"] = float(np.mean([len(t.turns) for t in valid]))
    found["truncated"] = float(np.mean([t.stop_reason.truncated for t in valid if t.stop_reason]))
    for name in sorted({name for t in valid for turn in t.turns for name in turn.rewards}):
        found[f"turn_reward/{name}"] = float(
            np.mean([sum(turn.rewards.get(name, 0.0) for turn in t.turns) for t in valid])
        )
    return found


def episode_return(completions: list[Any], episode_return: list[float | None], **_: Any) -> list[float | None]:
    """Reward function for TRL's own statistics: outcome and turn rewards of each episode; None for a failed one."""
    return episode_return


def check_trl() -> None:
    """See that TRL still has the seam we stand on. Raises: AgentGymError naming what moved."""
    for name, wanted in (("_generate_and_score_completions", "inputs"), ("_compute_loss", "inputs")):
        method = getattr(GRPOTrainer, name, None)
        if method is None or wanted not in inspect.signature(method).parameters:
            raise AgentGymError(
                f"TRL's GRPOTrainer.{name} has moved: agentgym is built on trl 1.16. Install trl>=1.16,<1.17."
            )


def _joined(columns: Sequence[torch.Tensor]) -> torch.Tensor:
    """Rows below each other; of single numbers the mean."""
    return torch.cat(list(columns)) if columns[0].dim() else torch.stack(list(columns)).mean()


def _roll_out(prompts: list[Any], trainer: TurnGRPOTrainer) -> dict[str, Any]:
    """TRL's rollout_func: one entry a prompt. A failed episode becomes one masked token that trains nothing."""
    trainer._played = played = trainer._play()
    end = trainer._tokenizer.eos_token_id
    batch: dict[str, list[Any]] = {k: [] for k in ("prompt_ids", "completion_ids", "env_mask", "logprobs")}
    returns: list[float | None] = []
    sight = trainer._sight
    trainer._shown = [sight.shown(one) if sight is not None and one.valid else () for one in played]
    known = True  # a backend without log-probabilities leaves the ratio to TRL
    for trajectory in played:
        arrays = trajectory.arrays()
        start = arrays.prompt_length
        whole = trajectory.valid and len(arrays.ids) > start
        batch["prompt_ids"].append(arrays.ids[:start].tolist() or [end])
        batch["completion_ids"].append(arrays.ids[start:].tolist() if whole else [end])
        batch["env_mask"].append(arrays.loss_mask[start:].astype(int).tolist() if whole else [0])
        batch["logprobs"].append(arrays.logprobs[start:].tolist() if whole else [0.0])
        known = known and all(len(turn.logprobs) == len(turn.token_ids) for turn in trajectory.turns)
        returns.append(
            trajectory.outcome_reward + float(np.nansum(trajectory.turn_rewards())) if trajectory.valid else None
        )
    return {**batch, "logprobs": batch["logprobs"] if known else None, "episode_return": returns}
