"""verifiers' `StatefulToolEnv.evaluate` with a client that is a script; nothing is written to disk."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import episodes_work
import verifiers as vf
from datasets import Dataset, disable_progress_bars
from verifiers.clients.client import Client
from verifiers.types import Response, ResponseMessage, ToolCall

disable_progress_bars()


class Scripted(Client):
    """Answers from the conversation, in the package's own types."""

    def __init__(self) -> None:
        super().__init__(object())

    def setup_client(self, config: Any) -> Any:
        return config

    async def to_native_tool(self, tool: Any) -> Any:
        return tool

    async def to_native_prompt(self, messages: Any) -> Any:
        return messages, {}

    async def get_native_response(self, prompt: Any, model: str, *rest: Any, **options: Any) -> Response:
        n_results = sum(message.role == "tool" for message in prompt)
        more = n_results < episodes_work.CALLS
        call = ToolCall(id=str(n_results), name="add", arguments=json.dumps({"amount": 1}))
        message = ResponseMessage(
            role="assistant",
            content="" if more else str(episodes_work.CALLS),
            tool_calls=[call] if more else None,
            finish_reason="tool_calls" if more else "stop",
            is_truncated=False,
        )
        return Response(id="", created=0, model=model, message=message)

    async def raise_from_native_response(self, response: Response) -> None:
        pass

    async def from_native_response(self, response: Response) -> Response:
        return response

    async def close(self) -> None:
        pass


class Counting(vf.StatefulToolEnv):
    async def setup_state(self, state: Any) -> Any:
        state["value"] = 0
        return await super().setup_state(state)

    def update_tool_args(self, tool_name: str, tool_args: Any, messages: Any, state: Any, **options: Any) -> Any:
        state["value"] += tool_args["amount"]
        return {**tool_args, "value": state["value"]}


def add(value: int, amount: int) -> str:
    """Add to the counter and read it."""
    return str(value)


async def reached(completion: Any, answer: str) -> float:
    return float(completion[-1].content == answer)


def play(count: int) -> None:
    rows = Dataset.from_list([{"question": "Count to 8.", "answer": str(episodes_work.CALLS)}] * count)
    environment = Counting(
        tools=[], max_turns=episodes_work.TURNS + 1, dataset=rows, eval_dataset=rows, rubric=vf.Rubric(funcs=[reached])
    )
    environment.add_tool(add, args_to_skip=["value"])
    results = asyncio.run(
        environment.evaluate(
            Scripted(), "script", num_examples=count, rollouts_per_example=1, max_concurrent=episodes_work.AT_ONCE
        )
    )
    assert [output["reward"] for output in results["outputs"]] == [1.0] * count


if __name__ == "__main__":
    episodes_work.main(play, "verifiers")
