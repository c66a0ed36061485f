"""`agentgym/service-v1`: an agent serves a customer with a hidden goal, under a policy and with tools over records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from agentgym import Checkpoint, Environment, Message, Policy, ScriptedPolicy, Task, TaskError, Tool, load, tool
from agentgym.methods.users import SimulatedUser, UserBehaviour

from ..record_app import StoreApp
from ..record_environment import StoreEnvironment
from ..record_store import Store
from . import retail, telecom, travel
from .customer import customer


@dataclass(frozen=True, slots=True)
class ServiceDomain:
    """A kind of customer service.

    Attributes:
        policy: the rules that the agent must obey.
        app: the tools of the agent. phone: creates the customer's telephone, if the domain has one.
    """

    policy: str
    app: type[StoreApp]
    phone: Callable[[Store, int], Environment] | None = None


DOMAINS: Mapping[str, ServiceDomain] = {
    "retail": ServiceDomain(retail.POLICY, retail.RetailApp),
    "travel": ServiceDomain(travel.POLICY, travel.TravelApp),
    "telecom": ServiceDomain(telecom.POLICY, telecom.TelecomApp, telecom.Phone),
}


class Service(StoreEnvironment):
    """Retail, travel and telecom: a policy, tools over records, a customer with a hidden goal. Nothing is isolated.

    Everything is in memory, and no code of the agent runs. The agent has the tools of its domain from the start. The
    episode ends when the customer leaves, or the agent hands over to a human.

    Task parameters: `domain`; `records`, `seed` and `goal` as for `agentgym/apps-v1`; `customer`, an object that the
    agent never sees: `persona` and `wants`, texts, `requests`, `facts` and `request_facts` of the scripted customer,
    and `phone_id` in telecom; `behaviour`, fields of `UserBehaviour` (optional).

    Args:
        user: the policy that plays the customer: a Policy, or the name and options of a registered one, such as
            `{"name": "chat_api", "base_url": ..., "model": ...}`. By default the scripted customer.
    """

    task_set = "service/desk-v1"

    def __init__(self, user: Policy | Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self._user: SimulatedUser | None = None
        self._own_policy: Policy | None = None
        if isinstance(user, Mapping):
            options = dict(user)
            self._own_policy = load("policies", options.pop("name", "chat_api"))(**options)
        self._policy: Policy | None = self._own_policy if isinstance(user, Mapping) else user

    def choose(self, domain: str) -> ServiceDomain:
        """Choose a domain and its app. Raises: KeyError for an unknown domain."""
        self.kinds = (DOMAINS[domain].app,)
        return DOMAINS[domain]

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Begin a task. Raises: TaskError for an unknown domain or an invalid customer."""
        name, wishes = task.parameters.get("domain"), task.parameters.get("customer")
        if name not in DOMAINS:
            raise TaskError(f"{task.id}: parameters['domain'] is {name!r:.80}. Choose from {', '.join(DOMAINS)}.")
        domain = self.choose(str(name))
        await super().reset(task, seed=seed)
        self.tools = {**type(self).tools, **_tools_of(str(name))}
        self.conduct.read_documentation(domain.app.name, "")  # the tools explain themselves
        try:
            self._user = self._make_user(wishes, task.parameters.get("behaviour", {}), domain)
        except (KeyError, TypeError, ValueError) as error:
            raise TaskError(
                f"{task.id}: parameters['customer'] or parameters['behaviour'] is not valid: {error!r}."
            ) from error
        self._user.begin(seed, opening=task.prompt)
        self.private_texts = [self._user.goal]
        return [Message("system", domain.policy.format(today=self.now[:10])), *task.opening()]

    async def respond(self, message: Message) -> list[Message]:
        """Let the customer answer. Raises: PolicyError if its policy fails."""
        if self.ended:
            return []
        text, leaves = await self.user.answer(message.text)
        if leaves:
            self.end_episode()
            text = f"{text}\n{self.record()}"
        return [Message("user", text)]

    @tool(final=True, inline=True, parallel=False)
    def hand_over(self, reason: str) -> str:
        """Hand the customer over to a human, and end your work."""
        self.check_open()
        self.end_episode()
        return f"Handed over.\n{self.record()}"

    @property
    def user(self) -> SimulatedUser:
        """Return the customer. Raises: RuntimeError before `reset`."""
        if self._user is None:
            raise RuntimeError("The customer does not exist before reset. Call reset first.")
        return self._user

    def counts(self) -> dict[str, int]:
        """Return counts of how the agent used the tools, and of how the customer behaved."""
        return {**super().counts(), **self.user.report()}

    async def state_key(self) -> str | None:
        """Return a hash of the task, the changes, the results seen, and the conversation with the customer."""
        return self._observed.key(str(self.store.data()), str(self.user.data()["messages"]))

    async def checkpoint(self) -> Checkpoint | None:
        checkpoint = await super().checkpoint()
        assert checkpoint is not None
        return Checkpoint({**checkpoint.data, "user": self.user.data()})

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        await super().restore(task, checkpoint, seed=seed)
        self.user.restore(checkpoint.data["user"])

    async def close(self) -> None:
        policy, self._own_policy = self._own_policy, None
        if policy is not None:
            await policy.close()
        await super().close()

    def _make_user(self, wishes: Any, behaviour: Any, domain: ServiceDomain) -> SimulatedUser:
        """Create the customer. Raises: KeyError, TypeError or ValueError if the parameters describe no customer."""
        phone = domain.phone(self.store, int(wishes["phone_id"])) if domain.phone is not None else None
        policy = self._policy or ScriptedPolicy(customer(wishes), name="customer")
        persona, wants = str(wishes["persona"]), str(wishes["wants"])
        return SimulatedUser(policy, persona, wants, behaviour=UserBehaviour(**behaviour), environment=phone)


@cache
def _tools_of(domain: str) -> Mapping[str, Tool]:
    """Return the APIs of a domain's app as tools that the agent calls directly."""
    app = DOMAINS[domain].app

    def tool_of(api: str, each: Tool) -> Tool:
        def function(environment: Service, /, **arguments: Any) -> Any:
            value = environment.call_api(app.name, api, arguments)
            environment._observed.add(str(value))
            return value

        return replace(each, options=replace(each.options, inline=True), function=function)

    return {api: tool_of(api, each) for api, each in app.apis.items()}
