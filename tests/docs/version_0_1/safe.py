"""The README's environment."""

import asyncio

from agentgym import Call, Environment, Message, Task, register, tool
from agentgym.episode.manager import EpisodeManager
from agentgym.policy.scripted import ScriptedPolicy


class Safe(Environment):
    """A safe with a three-digit code. In memory: nothing here needs isolation."""

    @tool
    def turn(self, digits: str) -> str:
        """Try a code and hear how many of its digits are right."""
        return f"{sum(a == b for a, b in zip(digits, '417', strict=False))} right"

    @tool(final=True)
    def report(self, digits: str) -> str:
        """Say which code opens the safe."""
        return "open" if digits == "417" else "still shut"

    async def progress(self):
        return 0.5


register("acme/safe-v1", thing=Safe)
agent = ScriptedPolicy(
    [
        Message("assistant", "A guess.", (Call("turn", {"digits": "427"}),)),
        Message("assistant", "", (Call("report", {"digits": "417"}),)),
    ]
)
[episode] = asyncio.run(EpisodeManager(agent, run="safe").collect([Task("safe-1", "acme/safe-v1", "Open the safe.")]))
assert [turn.potential for turn in episode.turns] == [0.5, 0.5]
for message in episode.messages():
    print(f"{message.role:>9}: {message.text or message.calls}")
