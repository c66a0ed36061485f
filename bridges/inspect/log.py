"""Export an evaluation as a log of Inspect (inspect_ai), which Inspect's viewer and analysis tools can open.

Source of the format: inspect_ai 0.3, `inspect_ai.log.EvalLog`, version 2, as JSON.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentgym import Content, EvaluationError, ImagePart, ResultStatus, StopReason, Trajectory, __version__
from agentgym.evaluation import Evaluation
from agentgym.storage import count_failures

from ..conversation import ConversationEntry, conversation

TOOL_ERRORS = {
    ResultStatus.MALFORMED: "parsing",
    ResultStatus.WRONG_ARGUMENTS: "parsing",
    ResultStatus.TIMEOUT: "timeout",
    ResultStatus.OVER_BUDGET: "limit",
    ResultStatus.UNKNOWN_TOOL: "unknown",
    ResultStatus.TOOL_ERROR: "unknown",
}
_SAMPLING = ("temperature", "top_p", "max_tokens")
_LIMITS = {
    StopReason.MAX_TURNS: "message",
    StopReason.MAX_TOKENS: "token",
    StopReason.CONTEXT_FULL: "context",
    StopReason.TIME: "time",
    StopReason.MAX_CALLS: "custom",
    StopReason.REPEATED_VOID: "custom",
    StopReason.LEFT: "custom",
    StopReason.HOPELESS: "custom",
}


def write_log(evaluation: Evaluation | None, trajectories: Iterable[Trajectory], target: Path) -> int:
    """Write an evaluation as a log that Inspect opens.

    Args:
        evaluation: the evaluation to write.
        trajectories: its episodes, as stored in its ledger.
        target: the file.
    Returns: the number of episodes. Raises: EvaluationError without an evaluation.
    """
    if evaluation is None:
        raise EvaluationError("A log of Inspect holds one evaluation. Name it: --label NAME.")
    log = inspect_log(evaluation, trajectories)
    target.write_text(json.dumps(log, ensure_ascii=True), encoding="utf-8")
    return len(log["samples"])


def inspect_log(evaluation: Evaluation, trajectories: Iterable[Trajectory]) -> dict[str, Any]:
    """Return the log as JSON-compatible data.

    Args:
        evaluation: the evaluation to write.
        trajectories: its episodes, as stored in its ledger. The log records samples of a task as epochs. Failed
            episodes become samples with an error and no score, as in Inspect.
    """
    samples = [_sample(trajectory, evaluation.policy) for trajectory in trajectories]
    began = _time(evaluation.created)
    success = evaluation.success()
    done = sum(sample["error"] is None for sample in samples)
    margin = {"low": success.low, "high": success.high, "level": success.level, "method": success.method}
    return {
        "version": 2,
        "status": "success",
        "eval": {
            "eval_id": evaluation.manifest,
            "run_id": evaluation.run,
            "created": began,
            "task": evaluation.task_set,
            "task_id": f"{evaluation.task_set}@{evaluation.fingerprint}",
            "task_version": 0,
            "task_args": {"split": evaluation.split},
            "model": evaluation.policy or "unknown",
            "model_args": {},
            "dataset": {
                "name": f"{evaluation.task_set}:{evaluation.split}",
                "samples": len(evaluation.rows),
                "sample_ids": [row.task for row in evaluation.rows],
            },
            "model_generate_config": {name: value for name, value in evaluation.sampling.items() if name in _SAMPLING},
            "config": {"epochs": evaluation.group_size},
            "packages": {"agentgym": evaluation.version or __version__},
            "metadata": {
                "label": evaluation.label,
                "seed": evaluation.seed,
                "manifest": evaluation.manifest,
                "canary": evaluation.canary,
            },
        },
        "plan": {"name": "plan", "steps": [], "config": {}},  # Inspect reads keys in this order, and requires a plan
        "results": {
            "total_samples": len(samples),
            "completed_samples": done,
            "scores": [
                {
                    "name": "success",
                    "scorer": "success",
                    "scored_samples": done,
                    "unscored_samples": len(samples) - done,
                    "metrics": {"mean": {"name": "mean", "value": success.value, "metadata": margin}},
                }
            ]
            if success.n
            else [],
        },
        "stats": {"started_at": began, "completed_at": _time(evaluation.created + evaluation.duration_s)},
        "samples": samples,
    }


def _sample(trajectory: Trajectory, model: str) -> dict[str, Any]:
    messages = [_message(entry, model) for entry in conversation(trajectory)]
    last = next((m for m in reversed(messages) if m["role"] == "assistant"), None)
    stop, usage = trajectory.stop_reason, trajectory.usage()
    tokens = Counter({"input": int(usage.get("prompt_tokens", 0)), "output": int(usage.get("completion_tokens", 0))})
    tokens["output"] = tokens["output"] or sum(len(turn.token_ids) for turn in trajectory.turns)
    spent = {"input_tokens": tokens["input"], "output_tokens": tokens["output"], "total_tokens": tokens.total()}
    error = trajectory.error or "failed without a reason"
    ending = "max_tokens" if trajectory.turns and trajectory.turns[-1].finish_reason == "length" else "stop"
    return {
        "id": trajectory.task.id,
        "epoch": trajectory.sample + 1,
        "input": messages[: len(trajectory.opening)],
        "target": str(trajectory.task.truth),
        "messages": messages,
        "output": {
            "model": model,
            "choices": [] if last is None else [{"message": last, "stop_reason": ending}],
            "completion": "" if last is None else _plain(last["content"]),
            "usage": spent,
        },
        "scores": {name: {"value": value} for name, value in trajectory.outcome.items()} if trajectory.valid else None,
        "metadata": {
            "trajectory": trajectory.id,
            "tags": list(trajectory.task.tags),
            "stop_reason": str(stop or ""),
            "turn_rewards": [dict(turn.rewards) for turn in trajectory.turns],
            "failures": dict(count_failures(trajectory)),
            "roles": [turn.role for turn in trajectory.turns],
            "rows": [turn.row for turn in trajectory.turns],
            "policy_versions": [[turn.policy_version, turn.last_version] for turn in trajectory.turns],
        },
        "model_usage": {model: spent},
        "total_time": trajectory.duration_s,
        "turn_count": len(trajectory.turns),
        "error": None if trajectory.valid else {"message": error, "traceback": error, "traceback_ansi": error},
        "limit": {"type": _LIMITS[stop], "limit": 0} if stop in _LIMITS else None,
    }


def _message(entry: ConversationEntry, model: str) -> dict[str, Any]:
    content = _content(entry.message.spoken().content)
    if thought := entry.message.thought:
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        content = [{"type": "reasoning", "reasoning": thought}, *parts]
    message: dict[str, Any] = {"role": entry.message.role, "content": content}
    if entry.message.role == "assistant":
        message |= {"source": "generate", "model": model}
        message["tool_calls"] = [
            {"id": name, "function": call.name, "arguments": call.arguments, "type": "function"}
            | ({"parse_error": call.error} if call.error else {})
            for name, call in entry.calls
        ]
    if entry.message.role == "tool":
        message |= {"tool_call_id": entry.call_id, "function": entry.message.name or None}
        if entry.status in TOOL_ERRORS:
            message["error"] = {"type": TOOL_ERRORS[entry.status], "message": entry.message.text}
    return message


def _content(content: Content) -> Any:
    if isinstance(content, str):
        return content
    return [
        {"type": "image", "image": f"data:{part.media_type};base64,{part.data}"}
        if isinstance(part, ImagePart)
        else {"type": "text", "text": part.text}
        for part in content
    ]


def _plain(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
