"""Episodes as rows of a Parquet file: for `datasets`, pandas, and training on conversations.

datasets.load_dataset("parquet", data_files="episodes.parquet")
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

from agentgym._imports import check_package
from agentgym.errors import EvaluationError
from agentgym.evaluation.export.chat import conversation
from agentgym.evaluation.export.training_rows import row_features
from agentgym.messages import ImagePart
from agentgym.storage.failures import count_failures
from agentgym.task.task_set import canary_of
from agentgym.tools.arguments import replace_lone_surrogates
from agentgym.trajectory.record import Trajectory

BATCH = 256


def row_of_episode(trajectory: Trajectory, *, tokens: bool = False) -> dict[str, Any]:
    """Return one episode as plain data, in the columns of the file, without the truth: exports hold no answers.

    Args:
        tokens: add token ids, loss mask, log-probabilities, and the turn and policy version of each token.
    """
    task, stop = trajectory.task, trajectory.stop_reason
    row: dict[str, Any] = {
        "id": trajectory.id,
        "task": task.id,
        "sample": trajectory.sample,
        "environment": task.environment,
        "split": task.split,
        "tags": list(task.tags),
        "messages": _messages(trajectory),
        "valid": trajectory.valid,
        "success": trajectory.success if trajectory.scored else None,
        "reward": trajectory.return_from() if trajectory.valid else None,
        "outcome": json.dumps(trajectory.outcome),
        "turn_rewards": [json.dumps(turn.rewards) for turn in trajectory.turns],
        "stop_reason": stop.value if stop else "",
        "turns": len(trajectory.turns),
        "roles": [turn.role for turn in trajectory.turns],
        "rows": [turn.row for turn in trajectory.turns],
        "first_versions": [turn.policy_version for turn in trajectory.turns],
        "last_versions": [turn.last_version for turn in trajectory.turns],
        "failures": json.dumps(dict(count_failures(trajectory))),
        "error": trajectory.error or "",
        "policy": trajectory.provenance.policy or "",
        "seed": trajectory.seed,
        "duration_s": trajectory.duration_s,
        "usage": json.dumps(trajectory.usage()),
    }
    if tokens:
        arrays = trajectory.arrays()
        row |= {
            "token_ids": arrays.ids.tolist(),
            "loss_mask": arrays.loss_mask.tolist(),
            "logprobs": arrays.logprobs.tolist(),
            "turn_index": arrays.turn_index.tolist(),
            "versions": arrays.versions.tolist(),
            "prompt_length": arrays.prompt_length,
            "row_starts": list(arrays.row_starts),
        }
    return row


def write_parquet(trajectories: Iterable[Trajectory], path: Path, *, task_set: str = "", tokens: bool = False) -> int:
    """Write episodes to a file atomically, batch by batch. Returns: the number of episodes.

    Args:
        task_set: the task set whose canary goes into the file's metadata.
    Raises: MissingExtraError without pyarrow; EvaluationError if there is no episode.
    """
    check_package("pyarrow", "data", "Parquet")
    import pyarrow

    schema = _schema(pyarrow, tokens).with_metadata({"canary": canary_of(task_set), "task_set": task_set})
    rows = (row_of_episode(trajectory, tokens=tokens) for trajectory in trajectories)
    tables = (pyarrow.Table.from_pylist(batch, schema) for batch in _batches(rows))
    return _write_tables(tables, schema, path, "There is no episode to export.")


def write_training_rows(rows: Iterable[dict[str, Any]], path: Path, nothing: str) -> int:
    """Write rows of `training_rows` to a file atomically, batch by batch. Returns: the number of rows.

    Args:
        nothing: the message of the error if there are no rows.
    Raises: MissingExtraError without datasets; EvaluationError if there is no row.
    """
    check_package("datasets", "data", "A data set for trainers")
    from datasets import Dataset

    batches = _batches(iter(rows))
    if (first := next(batches, None)) is None:
        raise EvaluationError(nothing)
    features = row_features(list(first[0]))
    tables = (Dataset.from_list(batch, features=features).data.table for batch in chain([first], batches))
    return _write_tables(tables, features.arrow_schema, path, nothing)


def _write_tables(tables: Iterable[Any], schema: Any, path: Path, nothing: str) -> int:
    from pyarrow.parquet import ParquetWriter

    partial, count = path.with_name(path.name + ".partial"), 0
    path.parent.mkdir(parents=True, exist_ok=True)
    with ParquetWriter(partial, schema) as writer:
        for table in tables:
            writer.write_table(table)
            count += len(table)
    if not count:
        partial.unlink()
        raise EvaluationError(nothing)
    partial.replace(path)
    return count


def _messages(trajectory: Trajectory) -> list[dict[str, Any]]:
    """Return messages in the form of chat templates, with arguments as JSON text, because a column has one type."""
    messages = []
    for spoken in conversation(trajectory):
        content = spoken.message.content
        images = [] if isinstance(content, str) else [part for part in content if isinstance(part, ImagePart)]
        calls = [
            {"id": name, "type": "function", "function": {"name": call.name, "arguments": _arguments(call)}}
            for name, call in spoken.calls
        ]
        messages.append(
            {
                "role": spoken.message.role,
                "content": spoken.message.written,
                "tool_calls": calls,
                "tool_call_id": spoken.call_id,
                "name": spoken.message.name,
                "row": spoken.row,
                "images": [f"data:{image.media_type};base64,{image.data}" for image in images],
            }
        )
    return messages


def _arguments(call: Any) -> str:
    return json.dumps(call.arguments, ensure_ascii=False)


def _schema(pyarrow: Any, tokens: bool) -> Any:
    text, integer, real_number = pyarrow.string(), pyarrow.int64(), pyarrow.float64()
    call = pyarrow.struct({"id": text, "type": text, "function": pyarrow.struct({"name": text, "arguments": text})})
    message = pyarrow.struct(
        {
            "role": text,
            "content": text,
            "tool_calls": pyarrow.list_(call),
            "tool_call_id": text,
            "name": text,
            "row": integer,
            "images": pyarrow.list_(text),
        }
    )
    columns = {
        "id": text,
        "task": text,
        "sample": integer,
        "environment": text,
        "split": text,
        "tags": pyarrow.list_(text),
        "messages": pyarrow.list_(message),
        "valid": pyarrow.bool_(),
        "success": real_number,
        "reward": real_number,
        "outcome": text,
        "turn_rewards": pyarrow.list_(text),
        "stop_reason": text,
        "turns": integer,
        "roles": pyarrow.list_(text),
        "rows": pyarrow.list_(integer),
        "first_versions": pyarrow.list_(integer),
        "last_versions": pyarrow.list_(integer),
        "failures": text,
        "error": text,
        "policy": text,
        "seed": integer,
        "duration_s": real_number,
        "usage": text,
    }
    if tokens:
        columns |= {
            "token_ids": pyarrow.list_(integer),
            "loss_mask": pyarrow.list_(pyarrow.bool_()),
            "logprobs": pyarrow.list_(real_number),
            "turn_index": pyarrow.list_(integer),
            "versions": pyarrow.list_(integer),
            "prompt_length": integer,
            "row_starts": pyarrow.list_(integer),
        }
    return pyarrow.schema(columns)


def _batches(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    while batch := list(islice(rows, BATCH)):
        yield replace_lone_surrogates(batch)  # Arrow supports only UTF-8
