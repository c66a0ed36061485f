"""A taskset as an author of verifiers writes one, with a tool server of its own. It needs verifiers."""

from __future__ import annotations

import asyncio
import os

import verifiers.v1 as vf

__all__ = ["SumsTaskset"]


class SumsConfig(vf.TasksetConfig):
    size: int = 8


class SumsData(vf.TaskData):
    answer: int
    fault: str = ""


class SumsToolset(vf.Toolset[vf.ToolsetConfig]):
    TOOL_PREFIX = None

    @vf.tool
    async def add(self, left: int, right: int) -> str:
        """Add two numbers."""
        return str(left + right)


class SumsTask(vf.Task[SumsData]):
    @classmethod
    def toolsets(cls, config):
        return [SumsToolset(vf.ToolsetConfig())]

    @vf.reward
    async def right(self, trace) -> float:
        if self.data.fault == "judge":
            raise RuntimeError("the judge broke")
        if self.data.fault == "hang":
            await asyncio.sleep(60)
        if self.data.fault == "die":
            os._exit(3)
        return float(str(self.data.answer) in (trace.last_reply or ""))

    @vf.metric
    async def turns(self, trace) -> float:
        return float(trace.num_turns)


class SumsTaskset(vf.Taskset[SumsTask, SumsConfig]):
    def load(self):
        faults = ["", "judge", "hang", "die"]
        for number in range(self.config.size):
            fault = faults[number] if number < len(faults) else ""
            prompt = f"What is {number} + {number * 7}?"
            yield SumsTask(SumsData(prompt=prompt, system_prompt="Be exact.", answer=number * 8, fault=fault))


if __name__ == "__main__":
    SumsToolset.run()
