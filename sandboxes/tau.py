"""`agentgym/tau-v1`: the domains of tau-bench, with their own tools over their own data, and a simulated user."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar

from agentgym import Call, Message, Policy, Result, Task, TaskError, ToolError, load
from agentgym.methods.users import SimulatedUser, UserBehaviour

from .function_turns import RECORD, START_S, Contents, FunctionTurns

GREETING = "Hi! How can I help you today?"
PACKAGE = "tau_bench.envs"


class Tau(FunctionTurns):
    """A customer, a policy, and the tools of a domain of tau-bench, which run in the sandbox. Isolated: the tools.

    The episode ends when the customer leaves, or the agent hands over to a human. Without a policy that plays the
    customer, the agent is told the customer's wishes at the start, and the episode ends with its first message without
    calls.

    Task parameters: `source`, the folder `tau_bench/envs`; `domain`, such as `retail`; `tools`, the schemas of its
    tools; `wiki`, the policy that the agent obeys. The prompt states the customer's wishes; the agent never reads it if
    a policy plays the customer.

    Args:
        user: the policy that plays the customer: a Policy, or the name and options of a registered one.
    """

    reward = "tau"
    last_tools: ClassVar[frozenset[str]] = frozenset({"transfer_to_human_agents"})

    def __init__(self, user: Policy | Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self._own_policy: Policy | None = None
        if isinstance(user, Mapping):
            options = dict(user)
            self._own_policy = load("policies", options.pop("name", "chat_api"))(**options)
        self._policy: Policy | None = self._own_policy if isinstance(user, Mapping) else user
        self._user: SimulatedUser | None = None

    @classmethod
    def program(cls, parameters: Mapping[str, Any]) -> tuple[Contents, dict[str, Any]]:
        if "domain" not in parameters:
            return super().program(parameters)
        domain = str(parameters["domain"])
        opening = {
            "classes": {"TauTools": "tau_tools"},
            "config": {"TauTools": {"package": f"{PACKAGE}.{domain}"}},
            "long_context": False,
        }
        return _files_of(Path(parameters["source"]), domain), opening

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Begin a task.

        Raises: TaskError for parameters that describe no domain; PolicyError if the customer does not begin.
        """
        opening = await super().reset(task, seed=seed)
        system = [Message("system", str(task.parameters["wiki"]))] if "wiki" in task.parameters else []
        history = list(self._history(task))
        self._user, self.private_texts = None, ()
        if self._policy is None:
            return [*system, *history, *opening]
        try:
            behaviour = UserBehaviour(**task.parameters.get("behaviour", {}))
        except (TypeError, ValueError) as error:
            raise TaskError(f"{task.id}: parameters['behaviour'] is not valid: {error!r}.") from error
        self._user = self._customer(task, self._policy, behaviour)
        self._user.begin(seed)
        self.private_texts = [self._user.goal]
        history = history or [Message("assistant", GREETING)]
        last = history[-1]
        awaits_customer = last.role == "assistant" and not last.calls
        self._user.recall(history[:-1] if awaits_customer else history)
        if awaits_customer:
            text, _ = await self._user.answer(last.text)
            history.append(Message("user", text))
        return [*system, *history]

    async def respond(self, message: Message) -> list[Message]:
        """Let the customer answer. Raises: PolicyError if its policy fails."""
        if self.ended:
            return []
        text, leaves = await self._user.answer(message.text) if self._user is not None else ("", True)
        if leaves:
            try:
                text = f"{text}\n{await self._record()}"
            except ToolError:  # the functions are gone, and with them the episode
                return []
            self.end_episode()
        return [Message("user", text)]

    async def call(self, call: Call) -> Result:
        result = await super().call(call)
        if call.name in self.last_tools and result.ok and not self.ended:
            record = await self._record()
            self.end_episode()
            return replace(result, content=f"{result.content}\n{record}", final=True)
        return result

    def _history(self, task: Task) -> Sequence[Message]:
        """Return the messages that agent and customer exchanged before the episode."""
        return ()

    def _customer(self, task: Task, policy: Policy, behaviour: UserBehaviour) -> SimulatedUser:
        return SimulatedUser(policy, goal=task.prompt, behaviour=behaviour)

    async def _end_state(self) -> dict[str, Any]:
        """Return the facts about the data that the reward needs. Raises: ToolError."""
        return {"state": (await self._ask({"state": True}, timeout_s=START_S))["state"]}

    async def _record(self) -> str:
        """Return the line that the reward reads. Raises: ToolError."""
        report = self._user.report() if self._user is not None else {}
        return RECORD + json.dumps({**await self._end_state(), **report})

    async def close(self) -> None:
        policy, self._own_policy = self._own_policy, None
        if policy is not None:
            await policy.close()
        await super().close()


@lru_cache(maxsize=8)
def _files_of(source: Path, domain: str) -> Contents:
    """Return the tools and the data of a domain, without the modules that need the clients of models.

    Raises: ValueError for a folder that holds no domain; OSError.
    """
    folders = [source / domain / "tools", source / domain / "data"]
    if missing := next((folder for folder in folders if not folder.is_dir()), None):
        raise ValueError(f"there is no folder {missing}")
    paths = [source / "tool.py", *(path for folder in folders for path in sorted(folder.iterdir()) if path.is_file())]
    root = "/".join(PACKAGE.split("."))
    contents = [(f"{root}/{path.relative_to(source)}", path.read_bytes()) for path in paths]
    adapter = (files(__package__) / "tau_tools.py").read_bytes()
    return (("tau_tools.py", adapter), *contents)
