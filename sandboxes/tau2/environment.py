"""`agentgym/tau2-v1`: the domains of tau2-bench, with their own tools over their own data, and a simulated customer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from agentgym import Call, Environment, Message, Policy, Result, Task
from agentgym.methods.users import SimulatedUser, UserBehaviour

from ..function_turns import START_S, Contents
from ..tau import Tau

CODE, DATA = ("src/tau2/domains", "tau2/domains"), ("data/tau2/domains", "tau2/data/tau2/domains")
"""The folders of the domains' code and data: in a clone, and in the package that is built from it."""
GUEST = "tau2_guest"
OF_CUSTOMER = "user."
DATA_SUFFIXES, OF_TASKS = (".json", ".toml", ".md", ".txt"), ("tasks", "split_")
MAX_KEPT = 1_000
"""The largest number of the customer's calls in the record."""


class Tau2(Tau):
    """A customer, a policy, and the tools of a domain of tau2-bench, which run in the sandbox. Isolated: the tools.

    The episode ends when the customer leaves. In some domains the customer has tools too, such as a telephone. Without
    a policy that plays the customer, the agent is told the customer's wishes at the start, also has the customer's
    tools, and its first message without calls ends the episode.

    Task parameters: `source`, a clone of tau2-bench; `domain`, such as `airline`; `tools` and `user_tools`, the schemas
    of the agent's tools and of the customer's; `wiki`, the policy that the agent must obey; `persona`, a description of
    the customer; `options`, those of the domain, such as how its documents are searched; `initial`, the initial state:
    `initialization_data` and `initialization_actions` as published, earlier `calls` and `messages`; `checks`,
    assertions that are called at the end and whose values are recorded. The prompt states the customer's wishes; the
    agent never reads it if a policy plays the customer.

    Args:
        user: the policy that plays the customer: a Policy, or the name and options of a registered one.
    """

    reward = "tau2"
    last_tools = frozenset()  # the customer leaves when it hears that it was transferred, as published

    def __init__(self, user: Policy | Mapping[str, Any] | None = None) -> None:
        super().__init__(user)
        self._hand = CustomersTools()
        self._of_customer: list[str] = []
        self._checks: list[Mapping[str, Any]] = []

    @classmethod
    def program(cls, parameters: Mapping[str, Any]) -> tuple[Contents, dict[str, Any]]:
        if "domain" not in parameters:
            return super().program(parameters)
        domain, initial = str(parameters["domain"]), dict(parameters.get("initial") or {})
        initial.pop("messages", None)
        opening = {
            "classes": {"Tau2Tools": f"{GUEST}.tools"},
            "config": {"Tau2Tools": {"domain": domain, "initial": initial, "options": parameters.get("options")}},
            "long_context": False,
        }
        return _files_of(Path(parameters["source"]), domain), opening

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Begin a task.

        Raises: TaskError if the parameters describe no domain; PolicyError if the customer's policy fails.
        """
        self._hand = CustomersTools()
        self._of_customer = [each["name"] for each in task.parameters.get("user_tools", ())]
        self._checks = list(task.parameters.get("checks", ()))
        opening = await super().reset(task, seed=seed)
        if self._user is None:
            self._offer(task.parameters.get("user_tools", ()))
        return opening

    def _history(self, task: Task) -> Sequence[Message]:
        rows = (task.parameters.get("initial") or {}).get("messages", ())
        return [
            Message(row["role"], row["text"], tuple(Call(**call) for call in row["calls"]), row["call_id"])
            for row in rows
        ]

    def _customer(self, task: Task, policy: Policy, behaviour: UserBehaviour) -> SimulatedUser:
        self._hand.add_tools(*map(self._declared, task.parameters.get("user_tools", ())))
        persona = str(task.parameters.get("persona", ""))
        return SimulatedUser(policy, persona, task.prompt, behaviour=behaviour, environment=self._hand)

    def _function(self, name: str) -> Any:
        return super()._function(OF_CUSTOMER + name if name in self._of_customer else name)

    async def _end_state(self) -> dict[str, Any]:
        end_state = await super()._end_state()
        if self._checks:
            request = {"call": "host.check", "arguments": {"checks": self._checks}}
            reply = await self._ask(request, timeout_s=START_S)
            end_state["checks"] = json.loads(reply["result"])
        return {**end_state, "calls": self._hand.calls}


class CustomersTools(Environment):
    """The customer's tools, such as a telephone. Nothing is isolated here: they run in the sandbox of the agent's
    tools.

    Attributes:
        calls: name and arguments of the customer's calls that were run.
    """

    def __init__(self) -> None:
        self.calls: list[list[Any]] = []

    async def call(self, call: Call) -> Result:
        result = await super().call(call)
        if result.ok and len(self.calls) < MAX_KEPT:
            self.calls.append([call.name, call.arguments])
        return result


def folder_of(source: Path, folders_of_domains: Sequence[str], domain: str) -> Path:
    """Return the folder of a domain in a clone, or in the package that is built from it.

    Raises: ValueError if there is no such folder.
    """
    folders = [source / folder / domain for folder in folders_of_domains]
    if (folder := next((folder for folder in folders if folder.is_dir()), None)) is None:
        raise ValueError(f"there is no folder {folders[0]}")
    return folder


@lru_cache(maxsize=8)
def _files_of(source: Path, domain: str) -> Contents:
    """Return a domain's code and data, without its tasks, and the stand-ins for the packages that it imports.

    Raises: ValueError if a folder holds no domain; OSError.
    """
    code, data = folder_of(source, CODE, domain), folder_of(source, DATA, domain)
    modules = [*sorted(code.glob("*.py")), *sorted((code.parent.parent / "utils").glob("[!_]*.py"))]
    contents = [(f"tau2/{path.relative_to(code.parent.parent).as_posix()}", path.read_bytes()) for path in modules]
    for path in sorted(data.rglob("*")):
        inside = path.relative_to(data).as_posix()
        if path.is_file() and path.suffix in DATA_SUFFIXES and not inside.startswith(OF_TASKS):
            contents.append((f"data/tau2/domains/{domain}/{inside}", path.read_bytes()))
    guest = {each.name: each.read_bytes() for each in files(f"{__package__}.guest").iterdir() if each.is_file()}
    return (*((f"{GUEST}/{name}", guest[name]) for name in sorted(guest)), *contents)
