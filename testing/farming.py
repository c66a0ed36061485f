"""check_farming: an agent that repeats one call must earn less than an agent that solves the task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from agentgym import Call, Message, Task, Tool, Trajectory

from .arguments import plausible_values
from .episode_checks import EpisodeChecker, Script
from .findings import short

NOWHERE = "no such thing"
"""A text that fits a schema, but that most tools answer with an error."""


async def check_farming(stage: EpisodeChecker, solution: Trajectory) -> int:
    """Repeat each call until the turns are used up: a return not below the oracle's is a finding.

    Every tool that does not end the episode is called with harmless arguments, with failing ones, and as the oracle
    first called it. Rewards that pay only for success cannot be farmed, so they are skipped.

    Args:
        solution: the oracle's successful trajectory of the task to farm.
    Returns: how many agents tried.
    """
    if not _pays_on_the_way(solution):
        return 0
    calls = _distinct(_repeatable(stage.tools, solution))
    best: Trajectory | None = None
    for call in calls:
        who = f"an agent that only repeats {call.name}({short(call.arguments, 60)})"
        for trajectory in await stage.play([solution.task], _repeater(call), who):
            if not trajectory.success and (best is None or trajectory.return_from() > best.return_from()):
                best = trajectory
    if best is not None and best.return_from() >= solution.return_from() - 1e-9:
        call = best.turns[0].calls[0]
        paid = ", ".join(sorted({name for turn in best.turns for name in turn.rewards}) or sorted(best.outcome))
        stage.subject.findings.add(
            f"The reward can be farmed: on {best.task.id!r}, {len(best.turns)} turns of "
            f"{call.name}({short(call.arguments, 60)}) return {best.return_from():.2f} without success, the oracle "
            f"{solution.return_from():.2f}. It was paid for {paid}: pay once for each thing found out, and only for "
            "results that are ok (Result.ok)."
        )
    return len(calls)


def _pays_on_the_way(solution: Trajectory) -> bool:
    """Return whether any component besides `success` has a nonzero weight."""
    paid = {name for turn in solution.turns for name in turn.rewards} | set(solution.outcome)
    return any(solution.weights.get(name, 1.0) for name in paid - {"success"})


def _repeatable(tools: Sequence[Tool], solution: Trajectory) -> Iterator[Call]:
    for tool in tools:
        if tool.options.final:
            continue
        harmless = plausible_values(tool)
        texts = [name for name, value in harmless.items() if isinstance(value, str)]
        yield Call(tool.name, harmless)
        yield Call(tool.name, {**harmless, **dict.fromkeys(texts, NOWHERE)})
        yield from [c for turn in solution.turns for c in turn.calls if c.name == tool.name][:1]


def _distinct(calls: Iterator[Call]) -> list[Call]:
    return list({repr((call.name, call.arguments)): call for call in calls}.values())


def _repeater(call: Call) -> Callable[[Task], Script]:
    def script(messages: Sequence[Message]) -> Message:
        turn = sum(message.role == "assistant" for message in messages)
        return Message("assistant", "", (replace(call, id=f"call_{turn}"),))

    return lambda task: script
