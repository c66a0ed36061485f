"""Inspect's `eval` with its mock model, which writes a log of every sample."""

from __future__ import annotations

import os
import tempfile

os.environ["INSPECT_DISPLAY"] = "none"

import episodes_work
import inspect_ai
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import match
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import tool
from inspect_ai.util import store


@tool
def add():
    async def execute(amount: int) -> str:
        """Add to the counter and read it.

        Args:
            amount: How much.
        """
        store().set("value", store().get("value", 0) + amount)
        return str(store().get("value"))

    return execute


def model(messages, tools, choice, config) -> ModelOutput:
    if sum(message.role == "tool" for message in messages) < episodes_work.CALLS:
        output = ModelOutput.for_tool_call("mockllm", "add", {"amount": 1})
    else:
        output = ModelOutput.from_content("mockllm", str(episodes_work.CALLS))
    output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)  # else it counts with a tokenizer
    return output


def play(count: int) -> None:
    samples = [Sample(input="Count to 8.", target=str(episodes_work.CALLS), id=n + 1) for n in range(count)]
    task = inspect_ai.Task(
        MemoryDataset(samples), solver=[use_tools(add()), generate(tool_calls="loop")], scorer=match()
    )
    with tempfile.TemporaryDirectory() as folder:
        log = inspect_ai.eval(
            task,
            model=get_model("mockllm/model", custom_outputs=model, memoize=False),
            log_dir=folder,
            max_samples=episodes_work.AT_ONCE,
            max_connections=episodes_work.AT_ONCE,
        )[0]
    assert log.status == "success", log.error
    assert log.results.scores[0].metrics["accuracy"].value == 1.0


if __name__ == "__main__":
    episodes_work.main(play, "inspect_ai")
