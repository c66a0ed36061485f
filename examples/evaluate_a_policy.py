"""Measure two agents on held-out tasks of a bundled task set, with intervals, and compare them task by task.

python examples/evaluate_a_policy.py
"""

from __future__ import annotations

import asyncio
import re

from agentgym import Call, Message, RolloutConfig, ScriptedPolicy, evaluate
from agentgym.evaluation import format_evaluation, format_gains


def guesser(choose) -> ScriptedPolicy:
    """An agent that guesses `choose(low, high)` from the numbers that are still possible."""

    def script(messages):
        low, high = map(int, re.search(r"from (\d+) to (\d+)", messages[0].text).groups())
        guess = None
        for message in messages:
            if message.role == "assistant":
                guess = message.calls[0].arguments["number"]
            elif message.role == "tool" and "higher" in message.text.casefold():
                low = guess + 1
            elif message.role == "tool" and "lower" in message.text.casefold():
                high = guess - 1
        return Message("assistant", "", (Call("guess", {"number": choose(low, high)}),))

    return ScriptedPolicy(script)


async def main() -> None:
    config = RolloutConfig(concurrency=16, seed=0)
    results = {}
    for name, choose in {"in order": lambda low, high: low, "halving": lambda low, high: (low + high) // 2}.items():
        results[name] = await evaluate(
            guesser(choose), "text/number-guess-v1", "held_out", config=config, limit=60, label=name
        )
        print(format_evaluation(results[name]))
    print(format_gains(results["in order"], results["halving"]))


if __name__ == "__main__":
    asyncio.run(main())
