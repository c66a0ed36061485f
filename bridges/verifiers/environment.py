"""Environments of verifiers as ours: `register_verifiers`, and `verifiers_tasks` for their tasks."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, ClassVar

from agentgym import (
    Call,
    Environment,
    EnvironmentServerError,
    Message,
    Result,
    ResultStatus,
    Reward,
    Split,
    Task,
    TaskError,
    TaskSet,
    Tool,
    ToolDefinitionError,
    Trajectory,
    load,
    register,
    seed_of,
)
from agentgym.reward import SUCCESS, Components

from .worker_process import SharedWorker, WorkerProcess


def _all_earned(total: float) -> bool:
    return total >= 1.0


class VerifiersEnvironment(Environment):
    """An environment of verifiers, run by a process in another Python environment. Nothing is isolated by us.

    Made by `register_verifiers`. Its harness asks for the agent's messages, and verifiers judges the episode at its
    end. Each call becomes a separate message there. Task parameters: `index` and `key` of the task in the taskset, as
    `verifiers_tasks` makes them.
    """

    worker: ClassVar[SharedWorker]
    solved: ClassVar[Callable[[float], bool]] = staticmethod(_all_earned)
    answer_s: ClassVar[float] = 120.0

    def __init__(self) -> None:
        self.reward = _VerifiersReward(self)
        self._process: WorkerProcess | None = None
        self._episode = ""
        self._over: Mapping[str, Any] | None = None

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Begin an episode. Its opening is the harness's first request to the model.

        Raises: TaskError for parameters that name no task; EnvironmentServerError.
        """
        await self._leave()
        self.ended, self._over = False, None
        index, key = task.parameters.get("index"), task.parameters.get("key")
        if not isinstance(index, int) or not isinstance(key, str):
            raise TaskError(f"{task.id} has no parameters 'index' and 'key'. Make the tasks by `verifiers_tasks`.")
        self._process = await type(self).worker.borrow()
        self._episode = await self._process.begin(index, key)
        return await self._next()

    async def call(self, call: Call) -> Result:
        """Send a message with one call, and return the harness's next request. Raises: EnvironmentServerError."""
        if call.error is not None or call.name not in self.tools or not call.is_encodable:
            return await super().call(call)
        async with self._in_order:
            if self._over is not None:
                return Result("The episode is over.", ResultStatus.TOOL_ERROR, call.name, call.id)
            function = {"name": call.name, "arguments": json.dumps(call.arguments)}
            await self._say(
                {"content": None, "tool_calls": [{"id": call.id, "type": "function", "function": function}]}
            )
            observed = await self._next()
        text = "\n\n".join(message.text for message in observed) or "[the episode is over]"
        most = self.tools[call.name].options.max_output_chars if call.name in self.tools else 10**5
        content, truncated = Tool.render_output(text, most)
        return Result(content, name=call.name, call_id=call.id, truncated=truncated)

    async def respond(self, message: Message) -> list[Message]:
        """Send a message without calls; this ends the episode in most harnesses. Raises: EnvironmentServerError."""
        async with self._in_order:
            await self._say({"content": message.text.encode("utf-8", "replace").decode()})  # lone surrogates become ?
            return await self._next()

    async def _say(self, message: Mapping[str, Any]) -> None:
        assert self._process is not None
        await self._process.say(self._episode, message)

    async def _next(self) -> list[Message]:
        """Return what the agent reads next, and update its tools; nothing at the end."""
        assert self._process is not None
        answer = await self._process.answer(self._episode)
        if "over" in answer:
            self._over = answer["over"]
            self.end_episode()
            return []
        try:
            messages = [_message(row) for row in answer["messages"]]
            tools = [_tool(row["function"], self.answer_s) for row in answer["tools"]]
        except (KeyError, TypeError, AttributeError, ToolDefinitionError) as error:
            raise EnvironmentServerError(
                f"The verifiers process sent a request that cannot be read: {error!r}"
            ) from error
        self.tools = {}
        self.add_tools(*tools)
        return messages

    async def verdict(self) -> tuple[Components, Mapping[str, float]]:
        """Return the components that verifiers recorded, and their weights. An unfinished episode is ended first."""
        assert self._process is not None
        if self._over is None:
            await self._process.end(self._episode)
            while self._over is None:
                await self._next()
        try:
            rewards = {
                str(name): (float(score), float(weight)) for name, (score, weight) in self._over["rewards"].items()
            }
            metrics = {name: float(value) for name, value in self._over["metrics"].items()}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise EnvironmentServerError(
                f"The verifiers process sent a judgement that cannot be read: {self._over}"
            ) from error
        total = sum(score * weight for score, weight in rewards.values())
        components = {**metrics, **{name: score for name, (score, _) in rewards.items()}}
        weights = {**dict.fromkeys(metrics, 0.0), **{name: weight for name, (_, weight) in rewards.items()}}
        if SUCCESS not in components:
            components[SUCCESS], weights[SUCCESS] = float(type(self).solved(total)), 0.0
        return components, weights

    async def close(self) -> None:
        await self._leave()
        await super().close()

    async def _leave(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            try:
                if self._over is None and process.is_sound:
                    await process.end(self._episode)
            finally:
                process.forget(self._episode)
                await type(self).worker.give_back(process)


class _VerifiersReward(Reward):
    """The rewards that verifiers recorded for the episode."""

    def __init__(self, environment: VerifiersEnvironment) -> None:
        self._environment = environment
        self.weights: Mapping[str, float] = {}

    async def outcome(self, episode: Trajectory) -> Components:
        components, self.weights = await self._environment.verdict()
        return components


def register_verifiers(
    name: str,
    python: str,
    taskset: Mapping[str, Any] | str,
    *,
    env: Mapping[str, Any] | None = None,
    most_tasks: int = 10_000,
    answer_s: float = 120.0,
    solved: Callable[[float], bool] | None = None,
) -> str:
    """Register an environment of verifiers here: `register_verifiers("me/sums-v1", ".venv/bin/python", "sums")`.

    Args:
        name: `namespace/name-vN`.
        python: the interpreter that has verifiers and the environment's package. It is trusted code.
        taskset: its id, or its config: {"id": "sums", "difficulty": 3}. `env`: the other keys of the environment's
            config. A seat (an agent's place) that names no harness gets a loop that
            runs calls on the task's tool servers.
        most_tasks: the largest number of tasks to list, from the first on.
        answer_s: seconds that the environment may take to judge, or to run the calls of a turn.
        solved: whether a reward is a success; by default from 1.0 on. If verifiers has a metric named `success`, the
            metric is used instead.
    Returns: the name.
    Raises: DuplicateNameError; ValueError for a name of another form.
    """
    config = {"taskset": {"id": taskset} if isinstance(taskset, str) else dict(taskset), "env": dict(env or {})}
    body: dict[str, Any] = {
        "worker": SharedWorker(python, config, most_tasks, answer_s),
        "answer_s": answer_s,
        "__doc__": f"The environment {config['taskset'].get('id')!r} of verifiers.",
    }
    if solved is not None:
        body["solved"] = staticmethod(solved)
    register(name, type(re.sub(r"\W", "_", name), (VerifiersEnvironment,), body))
    return name


def verifiers_tasks(name: str, *, train: int, validation: int = 0, held_out: int = 0, seed: int = 0) -> TaskSet:
    """Return the tasks of a registered environment of verifiers, split at random; the set is called `<name>`.

    Starts the process to list them, which takes seconds.

    Raises: EnvironmentServerError; TaskError if there are too few.
    """

    async def listed() -> list[dict[str, Any]]:
        shared: SharedWorker = load("environments", name).worker
        worker = await shared.borrow()
        try:
            return worker.tasks
        finally:
            await shared.give_back(worker)

    with ThreadPoolExecutor(1) as thread:  # the calling thread may already run an event loop
        rows = thread.submit(asyncio.run, listed()).result()
    if len(rows) < train + validation + held_out:
        raise TaskError(
            f"{name} has {len(rows)} tasks, which are fewer than the {train + validation + held_out} that the splits "
            "need."
        )
    order = random.Random(seed_of(name, seed)).sample(range(len(rows)), len(rows))
    splits: dict[str, list[Task]] = {}
    sizes: tuple[tuple[Split, int], ...] = (("train", train), ("validation", validation), ("held_out", held_out))
    for split, size in sizes:
        chosen, order = order[:size], order[size:]
        splits[split] = [
            Task(
                f"{split}/{index:05d}",
                name,
                messages=tuple(_message(message) for message in rows[index]["messages"]),
                parameters={"index": index, "key": str(rows[index]["key"])},
                split=split,
            )
            for index in chosen
        ]
    return TaskSet(name, splits)


def _message(row: Mapping[str, Any]) -> Message:
    content = row.get("content") or ""
    if not isinstance(content, str):
        content = "".join(str(part.get("text", "")) for part in content)
    return Message(row["role"], content, call_id=row.get("tool_call_id"))


def _tool(function: Mapping[str, Any], answer_s: float) -> Tool:
    name = str(function["name"])
    parameters = {"type": "object", "properties": {}, **(function.get("parameters") or {})}
    about = str(function.get("description") or name)
    return Tool.from_schema(name, about, parameters, partial(_unused, name), timeout_s=answer_s, parallel=False)


def _unused(name: str, arguments: dict[str, Any]) -> None:
    raise RuntimeError(f"The tool {name} runs in the verifiers process. Call it through the environment.")
