"""Plays a small environment in the framework that is named: `python warehouse_steps.py agentgym`.

The environment is in warehouses/, once for each framework, as its users would write it. An episode looks at four
shelves, evens them out by moves, and finishes. All frameworks get the same seeds, and must return the same texts.
Standard library only.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import importlib.metadata
import io
import json
import logging
import time
import tokenize
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

WAREHOUSES = Path(__file__).parent / "warehouses"
Call = Callable[[str, dict[str, Any]], Awaitable[str]]
BAD_CALLS = (("look", {"shelf": "z"}), ("move", {"source": "a", "target": "b", "count": 99}), ("fly", {}), ("look", {}))


class AgentgymSession:
    """An episode: `reset`, then `call`; `reward` is that of the episode."""

    package, reward = "agentgym-core", 0.0

    def __init__(self, warehouse: Any) -> None:
        from agentgym import Call, Task

        self._call, self._environment = Call, warehouse.Warehouse()
        self._task = Task("even", "agentgym/warehouse-v1", "Make all shelves hold as many boxes.")

    async def reset(self, seed: int) -> None:
        await self._environment.reset(self._task, seed=seed)

    async def call(self, name: str, arguments: dict[str, Any]) -> str:
        result = await self._environment.call(self._call(name, arguments))
        self.reward = float(result.content == "even")
        return str(result.content)


class TextSession:
    """Gymnasium and GEM: one text in, one text out."""

    def __init__(self, warehouse: Any) -> None:
        self._environment, self.reward = warehouse.Warehouse(), 0.0
        self.package = {"gymnasium_warehouse": "gymnasium", "gem_warehouse": "gem-llm"}[warehouse.__name__]

    async def reset(self, seed: int) -> None:
        self._environment.reset(seed=seed)

    async def call(self, name: str, arguments: dict[str, Any]) -> str:
        text, self.reward, *_ = self._environment.step(json.dumps({"name": name, "arguments": arguments}))
        return str(text)


class SkyRlSession:
    """SkyRL-Gym: one text in, messages out; an environment per episode, arguments by position."""

    package, reward = "skyrl-gym", 0.0

    def __init__(self, warehouse: Any) -> None:
        self._warehouse = warehouse

    async def reset(self, seed: int) -> None:
        self._environment = self._warehouse.Warehouse(seed)
        self._environment.init([{"role": "user", "content": "Make all shelves hold as many boxes."}])

    async def call(self, name: str, arguments: dict[str, Any]) -> str:
        step = self._environment.step(json.dumps({"name": name, "arguments": list(arguments.values())}))
        self.reward = step["reward"]
        return str(step["observations"][0]["content"])


class OpenEnvSession:
    """OpenEnv within the process; a server adds the way over its WebSocket."""

    package, reward = "openenv", 0.0

    def __init__(self, warehouse: Any) -> None:
        from openenv.core.env_server.mcp_types import CallToolAction

        self._action, self._environment = CallToolAction, warehouse.Warehouse()

    async def reset(self, seed: int) -> None:
        self._environment.reset(seed=seed)

    async def call(self, name: str, arguments: dict[str, Any]) -> str:
        action = self._action(tool_name=name, arguments=arguments)
        observation = await self._environment.step_async(action)
        self.reward = observation.reward
        if observation.error is not None:
            return str(observation.error.message)
        return str(observation.result.data)


class VerifiersSession:
    """verifiers: messages with calls in, messages out; the state is a dictionary; an end without a call is judged."""

    package, reward = "verifiers", 0.0

    def __init__(self, warehouse: Any) -> None:
        from verifiers.types import AssistantMessage, ToolCall

        self._warehouse, self._message, self._call = warehouse, AssistantMessage, ToolCall
        self._environment = warehouse.Warehouse([0])

    async def reset(self, seed: int) -> None:
        self._state = {"info": {"seed": seed}}
        await self._environment.setup_state(self._state)

    async def call(self, name: str, arguments: dict[str, Any]) -> str:
        if name == "finish":
            self.reward = await self._warehouse.even(self._state)
            return "even" if self.reward else "uneven"
        call = self._call(id="0", name=name, arguments=json.dumps(arguments))
        message = self._message(content="", tool_calls=[call])
        [reply] = await self._environment.env_response([message], self._state)
        return str(reply.content)


class BareSession:
    """Plain Python."""

    package, reward = "", 0.0

    def __init__(self, warehouse: Any) -> None:
        self._environment = warehouse.Warehouse()

    async def reset(self, seed: int) -> None:
        self._environment.reset(seed)

    async def call(self, name: str, arguments: dict[str, Any]) -> str:
        text = getattr(self._environment, name)(**arguments)
        self.reward = float(text == "even")
        return str(text)


SESSIONS = {
    "agentgym": AgentgymSession,
    "gymnasium": TextSession,
    "gem": TextSession,
    "skyrl": SkyRlSession,
    "openenv": OpenEnvSession,
    "verifiers": VerifiersSession,
    "bare": BareSession,
}


async def even_out(call: Call) -> list[str]:
    """Look at the shelves, move surplus boxes to where they lack, and finish. Returns: the texts of the results."""
    texts = [await call("look", {"shelf": shelf}) for shelf in "abcd"]
    surplus = {shelf: int(text) - 4 for shelf, text in zip("abcd", texts, strict=True)}
    while any(surplus.values()):
        source, target = max(surplus, key=lambda s: surplus[s]), min(surplus, key=lambda s: surplus[s])
        count = min(surplus[source], -surplus[target])
        texts.append(await call("move", {"source": source, "target": target, "count": count}))
        surplus[source] -= count
        surplus[target] += count
    return [*texts, await call("finish", {})]


async def play(session: Any, episodes: int) -> int:
    """Play episodes, and count their steps. Raises: AssertionError for one that was not rewarded."""
    steps = 0
    for seed in range(episodes):
        await session.reset(seed)
        steps += len(await even_out(session.call))
        assert session.reward == 1.0, f"seed {seed} was not rewarded"
    return steps


async def check(session: Any, bad_calls: bool) -> list[str]:
    """Return the texts of an episode that first makes mistakes, which must be answered and must change nothing."""
    await session.reset(7)
    for name, arguments in BAD_CALLS if bad_calls else ():
        assert await session.call(name, arguments), f"{name} of {arguments} was not answered"
    texts = await even_out(session.call)
    await session.reset(8)
    assert (await session.call("finish", {}), session.reward) == ("uneven", 0.0)
    return texts


def lines_of_code(path: Path) -> int:
    """Return the number of lines with more than comments."""
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text("utf-8")).readline)
    return len({line for t in tokens if t.type not in skipped for line in range(t.start[0], t.end[0] + 1)})


async def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("name", choices=SESSIONS)
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    warehouse = importlib.import_module(f"{options.name}_warehouse")
    session = SESSIONS[options.name](warehouse)
    texts = await check(session, bad_calls=options.name != "bare")
    step_s = []
    for _ in range(options.rounds):
        began = time.process_time()
        steps = await play(session, options.episodes)
        step_s.append((time.process_time() - began) / steps)
    figures = {
        "version": importlib.metadata.version(session.package) if session.package else "",
        "lines": lines_of_code(WAREHOUSES / f"{options.name}_warehouse.py"),
        "texts": texts,
        "step_s": min(step_s),
    }
    print("\n" + json.dumps(figures))


if __name__ == "__main__":
    import sys

    sys.path.insert(0, str(WAREHOUSES))
    asyncio.run(main())
