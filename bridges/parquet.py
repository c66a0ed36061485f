"""Episodes as rows of a Parquet file: for `datasets`, pandas, and training on conversations.

datasets.load_dataset("parquet", data_files="episodes.parquet")
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

from agentgym import ImagePart, MissingExtraError, Trajectory, install_command
from agentgym.evaluation import Evaluation
from agentgym.storage import count_failures
from agentgym.tools import replace_lone_surrogates

from .conversation import conversation

__all__ = ["row_of_episode", "write_parquet"]

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


def write_parquet(
    evaluation: Evaluation | None, trajectories: Iterable[Trajectory], target: Path, *, tokens: bool = False
) -> int:
    """Write episodes as rows for `datasets` and pandas, one row an episode.

    Args:
        evaluation: its task set's name and canary go into the file's metadata.
        tokens: also write token ids, masks and log-probabilities.
    Returns: the number of episodes. Raises: MissingExtraError without pyarrow.
    """
    if find_spec("pyarrow") is None:
        raise MissingExtraError(
            f"Parquet needs the package pyarrow, which is not installed. Run: {install_command('data')}"
        )
    import pyarrow

    schema = _schema(pyarrow, tokens)
    if evaluation is not None:
        schema = schema.with_metadata({"canary": evaluation.canary, "task_set": evaluation.task_set})
    rows = (row_of_episode(trajectory, tokens=tokens) for trajectory in trajectories)
    return write_tables((pyarrow.Table.from_pylist(batch, schema) for batch in batched(rows)), schema, target)


def write_tables(tables: Iterable[Any], schema: Any, target: Path) -> int:
    """Write tables of pyarrow to a file, one after another. Returns: the number of rows."""
    from pyarrow.parquet import ParquetWriter

    count = 0
    with ParquetWriter(target, schema) as writer:
        for table in tables:
            writer.write_table(table)
            count += len(table)
    return count


def batched(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows in batches, in which U+FFFD replaces each half of a surrogate pair: Arrow has only UTF-8."""
    rows = iter(rows)
    while batch := list(islice(rows, BATCH)):
        yield replace_lone_surrogates(batch)


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
