"""Replay a recorded episode to see whether its environment is deterministic, then try other endings from one turn.

python examples/replay_and_fork.py
"""

from __future__ import annotations

import asyncio

from agentgym import Call, EpisodeManager, Message, RolloutConfig, ScriptedPolicy, load_task_set
from agentgym.rollout import Fork


def guesses(*numbers: int) -> list[Message]:
    """One call of the tool `guess` per turn."""
    return [Message("assistant", "", (Call("guess", {"number": number}),)) for number in numbers]


async def main() -> None:
    task = load_task_set("text/number-guess-v1")["train"][0]
    low, high, secret = (task.parameters[name] for name in ("low", "high", "secret"))
    wrong = [number for number in range(low, high + 1) if number != secret]

    careless = ScriptedPolicy(guesses(*wrong[: task.parameters["guesses"]]))
    [record] = await EpisodeManager(careless).collect([task])
    print(f"recorded: {len(record.turns)} turns, outcome {record.outcome}")

    divergence = await EpisodeManager(careless).replay(record)
    print("replayed:", divergence or "every observation and state is the same")

    # Keep the first turn, and let two other agents go on from there.
    for name, next_guess in {"lucky": secret, "unlucky": wrong[-1]}.items():
        agent = ScriptedPolicy([*guesses(wrong[0]), *guesses(next_guess) * 9])
        manager = EpisodeManager(agent, RolloutConfig(seed=1), label=name)
        async for branch in manager.branch([Fork(record, turn=1)]):
            print(f"{name}: {len(branch.turns)} turns, outcome {branch.outcome}")


if __name__ == "__main__":
    asyncio.run(main())
