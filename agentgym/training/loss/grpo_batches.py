"""Builds the columns of TRL's batch for a GRPO step, marks the agent's own tokens, and takes subsets of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

from agentgym.credit import spread_over_tokens
from agentgym.credit.batch import BatchCredit
from agentgym.errors import RecipeError
from agentgym.evaluation.failures import Treatment
from agentgym.policy.separate_rows import SeparateRows
from agentgym.storage.failures import count_failures, turn_failures
from agentgym.training.objectives import TokenBatch
from agentgym.training.objectives.contract import EpisodeKind
from agentgym.trajectory.record import Trajectory
from agentgym.trajectory.turn import Turn

Array = NDArray[np.float64]


def apply_failure_masks(
    trajectories: Sequence[Trajectory], credit: Sequence[Array], treatments: Mapping[str, Treatment]
) -> list[Array]:
    """Return the advantages with zeros where a failure's treatment masks turns or episodes.

    Like every mask that depends on the agent's actions, this is biased: turns that lead to a masked failure are neither
    rewarded nor punished.

    Args:
        trajectories, credit: the trajectories, and one advantage per turn of each.
        treatments: treatments that override the table's; if empty, the advantages are returned unchanged.
    """
    masks_turn = {kind for kind, treatment in treatments.items() if treatment == "mask_turn"}
    masks_episode = {kind for kind, treatment in treatments.items() if treatment == "mask_episode"}
    if not masks_turn and not masks_episode:
        return list(credit)
    masked = []
    for trajectory, advantages in zip(trajectories, credit, strict=True):
        if not trajectory.valid:
            masked.append(advantages)
        elif masks_episode & count_failures(trajectory).keys():
            masked.append(np.zeros_like(advantages))
        else:
            is_masked = [bool(masks_turn & set(kinds)) for kinds in turn_failures(trajectory.turns)]
            masked.append(np.where(is_masked, 0.0, advantages))
    return masked


_NORMALISED_BY_BATCH = ("cispo", "dapo", "vespo")
"""Losses that TRL divides by the whole batch's tokens; it divides bnpo by a part's tokens, other losses by rows."""

_OUTCOME, _INPUT = "outcome/", "input/"
_INPUT_FIELDS = ("expert_returns",)
"""Columns of training parts that have their own field in TokenBatch; all other columns are in `inputs`."""
_BY_GROUP = ("group_returns", "group_successes")
"""Columns with one number per episode of the group.

Their width may happen to be that of the tokens, so they are known by name.
"""


@dataclass(frozen=True, slots=True)
class OtherRows:
    """Episodes that the policy did not play, as a batch in TRL's format.

    Attributes:
        batch: without padding rows; empty if there are no episodes.
        count: the number that divides the sum of the episodes' losses.
    """

    batch: dict[str, Any]
    count: int

    @property
    def mean_length(self) -> float:
        """Return the batch's own tokens divided by `count`; 1 if there are no own tokens."""
        return float(own_tokens(self.batch).sum()) / self.count or 1.0


def trl_rows(
    trajectories: Sequence[Trajectory],
    end_id: int,
    untrained_turns: Mapping[str, int] = {},
    trainable_roles: Sequence[str] = (),
) -> dict[str, Any]:
    """Return what TRL's rollout_func must return: token ids, the mask of trained tokens, and log-probabilities.

    A failed episode becomes a single untrained token, `end_id`.

    Args:
        untrained_turns, trainable_roles: see `trained_turns`.
    """
    rows: dict[str, Any] = {name: [] for name in ("prompt_ids", "completion_ids", "env_mask", "logprobs")}
    for trajectory in trajectories:
        arrays = trajectory.arrays()
        start = arrays.prompt_length
        is_trained = np.array([*trained_turns(trajectory, untrained_turns, trainable_roles), False])
        mask = arrays.loss_mask & is_trained[arrays.turn_index]  # the last entry is for prompts, with index -1
        trainable = trajectory.valid and len(arrays.ids) > start
        rows["prompt_ids"].append(arrays.ids[:start].tolist() or [end_id])
        rows["completion_ids"].append(arrays.ids[start:].tolist() if trainable else [end_id])
        rows["env_mask"].append(mask[start:].astype(int).tolist() if trainable else [0])
        rows["logprobs"].append(arrays.logprobs[start:].tolist() if trainable else [0.0])
    return rows


def trained_turns(
    trajectory: Trajectory, untrained_turns: Mapping[str, int] = {}, trainable_roles: Sequence[str] = ()
) -> list[bool]:
    """Return for each turn of a trajectory whether it is trained on.

    Args:
        untrained_turns: by episode id, the number of initial turns that are not trained on.
        trainable_roles: only turns in these roles are trained on; empty for all turns.
    """
    first = untrained_turns.get(trajectory.id, 0)
    return [turn.index >= first and (not trainable_roles or turn.role in trainable_roles) for turn in trajectory.turns]


def check_roles(trajectories: Sequence[Trajectory], trainable_roles: Sequence[str]) -> None:
    """Raise RecipeError if a step's valid trajectories have turns, but none in a trainable role."""
    roles = {turn.role for trajectory in trajectories if trajectory.valid for turn in trajectory.turns}
    if trainable_roles and roles and not roles & set(trainable_roles):
        raise RecipeError(
            f"train.roles.trainable = {list(trainable_roles)} would train nothing: the roles in this step's episodes "
            f"are {sorted(roles)} ('' is a turn without a role). Name one of these roles."
        )


def have_logprobs(turns: Sequence[Turn]) -> bool:
    """Return whether each token has a finite log-probability. If vLLM lacks one, TRL returns None."""
    return all(
        len(turn.logprobs) == len(turn.token_ids) and np.isfinite(np.array(turn.logprobs, float)).all()
        for turn in turns
    )


def own_tokens(batch: Mapping[str, Any]) -> torch.Tensor:
    """Return a mask (B, T): 1 on the tokens that the agent sampled, 0 on observations and padding."""
    own: torch.Tensor = batch["completion_mask"] * batch.get("tool_mask", 1)
    return own


def by_token(trajectories: Sequence[Trajectory], credit: BatchCredit | None, length: int) -> torch.Tensor:
    """Return the advantage of each token, (B, T) float64; 0 on observations, padding and failed episodes.

    Args:
        credit: the credit of each trajectory. None returns integer turn indices instead, -1 for tokens that are not
            the agent's.
        length: T.
    """
    if credit is not None:
        rows = [
            spread_over_tokens(trajectory, advantages, length, token_weights=weights)
            for trajectory, advantages, weights in zip(
                trajectories, credit.advantages, credit.token_weights, strict=True
            )
        ]
        return torch.from_numpy(np.stack(rows))
    one_more = [spread_over_tokens(t, np.arange(1.0, len(t.turns) + 1), length) for t in trajectories]
    return torch.from_numpy(np.stack(one_more)).long() - 1


def spread(values: Sequence[Sequence[float]], turn_of_token: torch.Tensor) -> torch.Tensor:
    """Return for each token the value of its turn, (B, T); -1 for tokens of no turn.

    Args:
        values: a number for each turn of each row. turn_of_token: (B, T), -1 for tokens of no turn.
    """
    rows = [torch.tensor([*of_row, -1])[turns] for of_row, turns in zip(values, turn_of_token.cpu(), strict=True)]
    return torch.stack(rows).to(turn_of_token.device)


def episode_returns(trajectories: Sequence[Trajectory]) -> torch.Tensor:
    """Return the sum of each episode's outcome and turn rewards, (B,) float64; NaN for a failed episode."""
    returns = [t.return_from() if t.valid else np.nan for t in trajectories]
    return torch.tensor(returns, dtype=torch.float64)


def row_columns(
    trajectories: Sequence[Trajectory], groups: torch.Tensor, of_all: Sequence[Trajectory], group_size: int
) -> dict[str, torch.Tensor]:
    """Return the batch columns for each episode's group, attempts and outcome; `token_batch` reads them.

    Args:
        trajectories: the trajectories of the batch's rows. groups: (B,) the group of each row.
        of_all: the policy's trajectories of all processes.
    """
    returns = episode_returns(of_all).view(-1, group_size)
    successes = _component(of_all, "success").view(-1, group_size)
    names = sorted({name for trajectory in of_all for name in trajectory.outcome})
    return {
        "group_of_row": groups,
        "group_returns": returns[groups].float(),
        "group_successes": successes[groups].float(),
        "help_removed": torch.tensor([trajectory.help_removed for trajectory in trajectories]),
        "first_attempt_turns": torch.tensor([trajectory.first_attempt_turns for trajectory in trajectories]),
        **{_OUTCOME + name: _component(trajectories, name).float() for name in names},
    }


def input_column(name: str) -> str:
    """Return the name of the batch column for a training part's input; `token_batch` reads this column."""
    return name if name in _INPUT_FIELDS else _INPUT + name


def inputs_of(batch: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Return the columns that training parts added to a batch, by the names that the parts gave them."""
    return {name.removeprefix(_INPUT): values for name, values in batch.items() if name.startswith(_INPUT)}


def _component(trajectories: Sequence[Trajectory], name: str) -> torch.Tensor:
    """Return an outcome component of each episode, (B,); NaN for failed episodes and episodes without it."""
    values = [t.outcome.get(name, np.nan) if t.valid else np.nan for t in trajectories]
    return torch.tensor(values, dtype=torch.float64)


def imitation_rows(
    episodes: Sequence[tuple[Trajectory, int]],
    of_all: Sequence[Trajectory],
    group_size: int,
    end_and_pad_ids: tuple[int, int],
) -> dict[str, torch.Tensor]:
    """Make a batch in TRL's format from episodes that the policy did not play.

    Args:
        episodes: each with its group's index. of_all: the policy's episodes of the step.
        end_and_pad_ids: the tokenizer's ids of the end and padding tokens.
    """
    trajectories = [episode for episode, _ in episodes]
    end_id, pad_id = end_and_pad_ids
    rows = trl_rows(trajectories, end_id)

    def padded(lists: Sequence[Sequence[int]], filler: int, side: str = "right") -> torch.Tensor:
        tensors = [torch.tensor(values) for values in lists]
        return pad_sequence(tensors, batch_first=True, padding_value=filler, padding_side=side)

    prompts, completions = rows["prompt_ids"], rows["completion_ids"]
    completion_ids = padded(completions, pad_id)
    width = completion_ids.shape[1]
    return {
        "prompt_ids": padded(prompts, pad_id, "left"),
        "prompt_mask": padded([[1] * len(ids) for ids in prompts], 0, "left"),
        "completion_ids": completion_ids,
        "completion_mask": padded([[1] * len(ids) for ids in completions], 0),
        "tool_mask": padded(rows["env_mask"], 0),
        "advantages": torch.zeros(completion_ids.shape),
        "turn_of_token": by_token(trajectories, None, width),
        "episode_returns": episode_returns(trajectories).float(),
        **row_columns(trajectories, torch.tensor([group for _, group in episodes]), of_all, group_size),
    }


def token_batch(
    batch: Mapping[str, Any],
    logps: torch.Tensor,
    entropies: torch.Tensor,
    max_length: int,
    *,
    mean_length: float = 1.0,
    rows: EpisodeKind = "policy",
) -> TokenBatch:
    """Make the TokenBatch for objectives and loss terms from TRL's batch and the model's forward pass.

    Args:
        logps, entropies: (B, T) results of the forward pass. Other arguments: see TokenBatch.
    """
    # ratio between the sampling engine's and the model's probabilities
    ratio = batch.get("importance_sampling_ratio", 1.0)
    behaviour_logps = batch.get("old_per_token_logps")
    return TokenBatch(
        logps=logps,
        entropies=entropies,
        own=own_tokens(batch),
        advantages=batch["advantages"] * ratio,
        behaviour_logps=logps.detach() if behaviour_logps is None else behaviour_logps,
        reference_logps=batch.get("ref_per_token_logps"),
        turns=batch["turn_of_token"],
        returns=batch["episode_returns"],
        max_length=max_length,
        groups=batch["group_of_row"],
        group_returns=batch["group_returns"],
        group_successes=batch["group_successes"],
        mean_length=mean_length,
        expert_returns=batch.get("expert_returns"),
        outcomes={name.removeprefix(_OUTCOME): values for name, values in batch.items() if name.startswith(_OUTCOME)},
        inputs=inputs_of(batch),
        help_removed=batch["help_removed"],
        first_attempt_turns=batch["first_attempt_turns"],
        rows=rows,
        proximal_logps=batch.get("proximal_logps"),
    )


def lengths_of(batch: Mapping[str, torch.Tensor]) -> np.ndarray:
    """Return the token counts of prompts and completions, (B, 2); TRL pads the two separately."""
    lengths: np.ndarray = torch.stack([batch["prompt_mask"].sum(1), batch["completion_mask"].sum(1)], 1).cpu().numpy()
    return lengths


def share_of(batch: Mapping[str, Any], rows: np.ndarray, loss_type: str) -> float:
    """Return the weight of some rows' loss in the batch's loss."""
    if loss_type in _NORMALISED_BY_BATCH:
        return 1.0
    own = own_tokens(batch).sum(1)
    if loss_type == "bnpo":
        return float(own[torch.as_tensor(rows, device=own.device)].sum() / own.sum().clamp(min=1))
    return len(rows) / len(own)


def trimmed(batch: Mapping[str, Any], rows: np.ndarray) -> dict[str, Any]:
    """Return some rows of a batch, without columns that are all padding in these rows.

    Args:
        batch: tensors and lists with one entry per row are subset; other values are kept unchanged.
    """
    count, width = batch["completion_ids"].shape
    longest_prompt, longest_completion = lengths_of(batch)[rows].max(axis=0)
    part: dict[str, Any] = {}
    for name, value in batch.items():
        if isinstance(value, list) and len(value) == count:
            part[name] = [value[row] for row in rows]
        elif not isinstance(value, torch.Tensor) or not value.dim() or len(value) != count:
            part[name] = value
        else:
            part[name] = value[torch.as_tensor(rows, device=value.device)]
            if name in ("prompt_ids", "prompt_mask"):  # padded on the left
                part[name] = part[name][:, -longest_prompt:]
            elif value.dim() == 2 and value.shape[1] == width and name not in _BY_GROUP:
                part[name] = part[name][:, :longest_completion]
    return part


def with_labels_on(
    model: Any, own: torch.Tensor, completion_length: int, rows: SeparateRows | None = None
) -> Callable[..., Any]:
    """Wrap the model so that only the agent's own tokens keep their labels; TRL labels every token after the prompt.

    Args:
        own: (B, T) 1 on the agent's own tokens. TRL may pad completions to more than T.
        rows: the separate rows, if trajectories have several.
    """

    def forward(labels: torch.Tensor, **inputs: Any) -> Any:
        before, after = labels.shape[1] - completion_length, completion_length - own.shape[1]
        labels = labels.masked_fill(pad(own.to(labels.device), (before, after)) == 0, -100)
        return model(**inputs, labels=labels) if rows is None else rows.forward(model, labels=labels, **inputs)

    return forward


def of_the_batch(name: str, values: Sequence[float], token_counts: np.ndarray) -> list[float]:
    """Combine TRL's logged values of the parts into the value that TRL would have logged for the batch.

    Args:
        name: the metric's name; the metric is a mean over tokens unless the name ends with min or max.
        values: one value per part, NaN for a part without own tokens; or empty.
        token_counts: (parts,) number of own tokens of each part.
    """
    known = ~np.isnan(values)
    if len(values) < 2 or not (token_counts * known).any():
        return list(values[:1])
    for end, extreme in (("min", np.min), ("max", np.max)):
        if name.endswith(end):
            return [float(extreme(np.array(values)[known]))]
    return [float(np.average(np.array(values)[known], weights=token_counts[known]))]


def joined(columns: Sequence[torch.Tensor | None], width: int) -> torch.Tensor | None:
    """Concatenate the rows of several passes, or average scalars.

    Args:
        columns: one entry per pass: [rows, at most `width`], to which 0 is added on the right; or a scalar; or None for
            a pass without the column.
    """
    known = [values for values in columns if values is not None]
    if not known:
        return None
    rows = [pad(values, (0, width - values.shape[1])) for values in known if values.dim()]
    return torch.cat(rows) if rows else torch.stack(known).mean()
