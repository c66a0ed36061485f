"""What a turn took: of the sandboxes by their own counters, of the policy and the tools by what they say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentgym.environment import Environment
from agentgym.messages import Result
from agentgym.policy.contract import Reply
from agentgym.sandbox import Usage, combine_usage, usage_counts, usage_since

_SAID = ("cpu_s", "written_bytes")  # of parallel calls the walls, and what is started, overlap


class TurnMeter:
    """Differences between one reading of an environment's sandboxes and the next."""

    def __init__(self) -> None:
        self._environment: Environment | None = None
        self._before = Usage()

    async def read(self, environment: Environment, results: Sequence[Result] = ()) -> dict[str, float]:
        """What was used since the last reading, by name; empty where there are no sandboxes.

        The sandboxes' own counters see everything, and parallel calls once; but a sandbox that was opened and closed
        in between is only in what the calls say. So the larger of the two counts.
        """
        if environment.backend is None and type(environment).usage is Environment.usage:
            return {}
        if environment is not self._environment:  # made anew from a checkpoint: so are its counters
            self._environment, self._before = environment, Usage()
        now = await environment.usage()
        counts = usage_counts(usage_since(now, self._before))
        self._before = now
        said = combine_usage([dict(result.usage) for result in results])
        for name in _SAID:
            if said.get(name, 0) > counts.get(name, 0):
                counts[name] = said[name]
        if said.get("peak_memory_mib"):  # what a process says of itself includes memory it shares with the others
            counts.setdefault("peak_memory_mib", said["peak_memory_mib"])
        return counts


def spoken(reply: Reply, costs: Mapping[str, float]) -> dict[str, float]:
    """What the message itself took: tokens where the policy counts them, and the tools' cost in the user's unit."""
    counts: dict[str, float] = {}
    if reply.prompt_tokens or reply.completion_tokens:
        counts = {"prompt_tokens": reply.prompt_tokens, "completion_tokens": reply.completion_tokens}
    if costs and (cost := sum(costs.get(call.name, 0.0) for call in reply.message.calls)):
        counts["cost"] = cost
    return counts
