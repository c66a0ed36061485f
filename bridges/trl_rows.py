"""Episodes as rows that TRL's trainers read directly: SFT with tool calls, and preferences.

datasets.load_dataset("parquet", data_files="sft.parquet")

Source: TRL 1.16, `docs/source/dataset_formats.md`: conversational language modelling and explicit-prompt preferences,
each with a column `tools`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from itertools import chain, takewhile
from pathlib import Path
from typing import Any

from agentgym import EvaluationError, MissingExtraError, Trajectory, install_command
from agentgym.evaluation import Evaluation
from agentgym.rollout import schemas_of

from .conversation import conversation
from .parquet import batched, write_tables

__all__ = ["preference_rows", "sft_rows", "write_preference", "write_sft"]


def write_sft(
    evaluation: Evaluation | None, trajectories: Iterable[Trajectory], target: Path, *, unsuccessful: bool = False
) -> int:
    """Write conversations that TRL's SFTTrainer reads: see `sft_rows`.

    Args:
        evaluation: not used.
    Returns: the number of rows. Raises: MissingExtraError without datasets; EvaluationError without a row.
    """
    nothing = "No episode of a training task has solved it. To export all of them, write sft(unsuccessful=True)."
    return _write(sft_rows(trajectories, unsuccessful=unsuccessful), target, nothing)


def write_preference(
    evaluation: Evaluation | None,
    trajectories: Iterable[Trajectory],
    target: Path,
    *,
    margin: float = 0.0,
    max_pairs: int = 4,
) -> int:
    """Write pairs of a better and a worse conversation that TRL's DPOTrainer reads: see `preference_rows`.

    Args:
        evaluation: not used.
    Returns: the number of pairs. Raises: MissingExtraError without datasets; EvaluationError without a pair.
    """
    nothing = (
        "No two episodes of one training task differ by more than the margin. Pairs need several episodes of a task: "
        "play with --group-size."
    )
    return _write(preference_rows(trajectories, margin=margin, max_pairs=max_pairs), target, nothing)


def sft_rows(trajectories: Iterable[Trajectory], *, unsuccessful: bool = False) -> Iterator[dict[str, Any]]:
    """Yield a row per context of each valid episode of a training task, with its conversation and its tools.

    Nearly every episode has one context; see `Trajectory.rows`.

    Args:
        unsuccessful: whether to include episodes that did not solve their task.
    Raises: EvaluationError for episodes with images.
    """
    for trajectory in _usable(trajectories):
        if unsuccessful or trajectory.success == 1.0:
            for row in trajectory.rows():
                if row.turns:
                    yield {
                        "messages": _messages(row),
                        "tools": _tools(row),
                        "task": trajectory.task.id,
                        "reward": trajectory.return_from(),
                    }


def preference_rows(
    trajectories: Iterable[Trajectory], *, margin: float = 0.0, max_pairs: int = 4
) -> Iterator[dict[str, Any]]:
    """Yield pairs of episodes of a training task: the best with the worst, then the second best and second worst.

    The prompt is the common beginning of the two episodes, including equal turns. Episodes with several contexts are
    skipped.

    Args:
        margin: the return of the chosen episode must be higher by more than this, in reward units.
        max_pairs: maximum number of pairs per task.
    Raises: EvaluationError for episodes with images.
    """
    by_task: dict[str, list[Trajectory]] = {}
    for trajectory in _usable(trajectories):
        if trajectory.further_rows:
            continue
        by_task.setdefault(trajectory.task.id, []).append(trajectory)
    for episodes in by_task.values():
        ranked = sorted(episodes, key=lambda episode: -episode.return_from())
        for better, worse in list(zip(ranked[: len(ranked) // 2], reversed(ranked), strict=False))[:max_pairs]:
            if better.return_from() - worse.return_from() > margin and (row := _preference(better, worse)):
                yield row


def _preference(better: Trajectory, worse: Trajectory) -> dict[str, Any] | None:
    """Return the row of a pair; None if the episodes have no common beginning, or one of them ends there."""
    chosen, rejected = _messages(better), _messages(worse)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(chosen, rejected, strict=False)))
    while same and not (len(chosen) > same and chosen[same]["role"] == "assistant"):
        same -= 1  # the prompt ends where the agent's own tokens begin
    is_alike = same and rejected[same : same + 1] and rejected[same]["role"] == "assistant"
    if not is_alike or _tools(better) != _tools(worse):
        return None
    return {
        "prompt": chosen[:same],
        "chosen": chosen[same:],
        "rejected": rejected[same:],
        "tools": _tools(better),
        "task": better.task.id,
        "score_chosen": better.return_from(),
        "score_rejected": worse.return_from(),
    }


def _write(rows: Iterable[dict[str, Any]], target: Path, nothing: str) -> int:
    """Write rows to a file, batch by batch. `nothing`: the error message for an empty file."""
    if find_spec("datasets") is None:
        raise MissingExtraError(
            f"A data set for trainers needs the package datasets, which is not installed. Run: "
            f"{install_command('data')}"
        )
    from datasets import Dataset

    batches = batched(rows)
    if (first := next(batches, None)) is None:
        raise EvaluationError(nothing)
    features = _features(list(first[0]))
    tables = (Dataset.from_list(batch, features=features).data.table for batch in chain([first], batches))
    return write_tables(tables, features.arrow_schema, target)


def _features(columns: Sequence[str]) -> Any:
    """Return the column types as `datasets.Features`. Call arguments may be any JSON and share one type."""
    from datasets import Features, Json, List, Value

    text = Value("string")
    call = {"id": text, "type": text, "function": {"name": text, "arguments": Json()}}
    messages = List({"role": text, "content": text, "tool_calls": List(call), "tool_call_id": text, "name": text})
    types = {"tools": text, "task": text, "reward": Value("float64")}
    types |= {"score_chosen": Value("float64"), "score_rejected": Value("float64")}
    return Features({column: types.get(column, messages) for column in columns})


def _usable(trajectories: Iterable[Trajectory]) -> Iterator[Trajectory]:
    """Yield the valid episodes of training tasks without malformed calls.

    Held-out tasks must not be trained on, and a malformed call cannot be written as a call.
    """
    for trajectory in trajectories:
        is_legible = all(call.error is None for turn in trajectory.turns for call in turn.calls)
        if trajectory.valid and trajectory.task.split == "train" and trajectory.turns and is_legible:
            if any(message.images for message in trajectory.messages()):
                raise EvaluationError(
                    f"{trajectory.id} contains images, but this format can hold only text. Export it with --format "
                    "parquet."
                )
            yield trajectory


def _messages(trajectory: Trajectory) -> list[dict[str, Any]]:
    return [
        {
            "role": entry.message.role,
            "content": entry.message.written,
            "tool_calls": [
                {"id": name, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for name, call in entry.calls
            ],
            "tool_call_id": entry.call_id,
            "name": entry.message.name,
        }
        for entry in conversation(trajectory)
    ]


def _tools(trajectory: Trajectory) -> str:
    """Return the schemas of the tools as JSON text, which TRL expects."""
    return json.dumps(list(schemas_of(trajectory)), ensure_ascii=False)
