"""What the tests of rewards share: episodes made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentgym import Call, Message, StopReason, Task, Trajectory, Turn
from agentgym.messages import Result, ResultStatus

Done = tuple[Call, Result]


def called(name: str, result: str = "ok", status: ResultStatus = ResultStatus.OK, /, **arguments: Any) -> Done:
    return Call(name, arguments), Result(result, status, name)


def answered(text: str, **arguments: Any) -> Done:
    return Call("answer", {"text": text, **arguments}), Result("Answered.", ResultStatus.OK, "answer", final=True)


def make_trajectory(
    *turns: Sequence[Done] | str,
    truth: Any = None,
    stop: StopReason = StopReason.ANSWERED,
    outcome: dict[str, float] | None = None,
    name: str = "e",
    tokens: int = 0,
    sample: int = 0,
    parameters: dict[str, Any] | None = None,
) -> Trajectory:
    """An episode of turns, each a list of (call, result), or a text that the agent says."""
    task = Task("t", "test/any-v1", "What?", truth=truth, parameters=parameters or {})
    trajectory = Trajectory(name, task, sample, stop_reason=stop, outcome=dict(outcome or {}))
    for index, turn in enumerate(turns):
        if isinstance(turn, str):
            trajectory.turns.append(Turn(index, Message("assistant", turn), token_ids=[0] * tokens))
            continue
        calls, results = zip(*turn, strict=True)
        message = Message("assistant", "", calls)
        trajectory.turns.append(Turn(index, message, calls, results, token_ids=[0] * tokens))
    return trajectory
