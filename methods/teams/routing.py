"""with_routing: other models as a tool, each at its price, so that an agent learns which to ask."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from agentgym import (
    AgentGymError,
    Call,
    ContextFull,
    Environment,
    Message,
    Policy,
    Result,
    Task,
    Tool,
    ToolDefinitionError,
    ToolError,
    seed_of,
    tool,
)
from agentgym.environment import ContextChange, EnvironmentWrapper
from agentgym.policy import Reply, Request, Sampling

ROUTE = "route"
MAX_QUESTION_CHARS, MAX_ANSWER_TOKENS = 4_000, 512
ASK_S = 120.0


@dataclass(frozen=True, slots=True)
class PricedModel:
    """Description and prices of a model, in any unit of money.

    Attributes:
        note: the model's strengths, shown to the agent.
        price_in, price_out: price of 1,000 input and output tokens. price_call: additional price of each question.
        unseen: offered only in validation and held-out tasks, never in training.
    Raises: ValueError for a price below 0, or without any price.
    """

    note: str = ""
    price_in: float = 0.0
    price_out: float = 0.0
    price_call: float = 0.0
    unseen: bool = False

    def __post_init__(self) -> None:
        prices = (self.price_in, self.price_out, self.price_call)
        if not all(0 <= price < math.inf for price in prices) or not any(prices):
            raise ValueError(f"{self} is not valid: prices must be at least 0, and one of them above 0.")

    def cost(self, reply: Reply, question: str) -> float:
        """Return the cost of a question. If the policy does not count tokens, words are counted in their place."""
        read = reply.prompt_tokens or len(question.split())
        written = reply.completion_tokens or len(reply.token_ids or ()) or len(reply.message.text.split())
        return self.price_call + (self.price_in * read + self.price_out * written) / 1000


class ModelPool:
    """Models by name, with their prices.

    Args:
        policies: the models. prices: one for each of them.
    Raises: AgentGymError naming a model that only one of the two has.
    """

    def __init__(self, policies: Mapping[str, Policy], prices: Mapping[str, PricedModel]) -> None:
        for name in (*policies, *prices):
            if name not in prices:
                raise AgentGymError(f"The price list has no model {name!r}. It has: {', '.join(prices) or 'none'}.")
            if name not in policies:
                raise AgentGymError(f"The price list has {name!r}, but there is no policy of this name.")
        if not policies:
            raise AgentGymError("A pool needs at least one model.")
        self.policies, self.prices = dict(policies), dict(prices)

    def offered(self, split: str) -> list[str]:
        """Return the names of the models that a split's tasks may ask."""
        return [name for name, model in self.prices.items() if split != "train" or not model.unseen]


def with_routing(make: Callable[[], Environment], pool: ModelPool) -> Callable[[], Routing]:
    """Return a factory of environments in which the agent may ask other models, for `RolloutConfig(environment=...)`.

    Args:
        make: makes the environment, for example `functools.partial(agentgym.make, "agentgym/search-v1")`.
    Source: Router-R1, Zhang et al. 2025, arXiv:2506.09033: models as a tool, described in the prompt, and a reward that
        subtracts the cost from the answer's reward (here the reward `spent_cost`).
    """
    return lambda: Routing(make(), pool)


class Routing(EnvironmentWrapper):
    """An environment with the tool `route(model, question)`. It is as isolated as the wrapped one; the asked models are
    not isolated.

    Without a question, the model is asked the task itself: the text of the user messages in the environment's opening.

    The cost of a question is recorded as `cost` in the usage of its turn. If a model fails, the infrastructure has
    failed; if a question is too long for the model, the agent gets an error as the call's result.

    Args:
        environment, pool: as for `with_routing`.
    """

    def __init__(self, environment: Environment, pool: ModelPool) -> None:
        super().__init__(environment)
        self._pool = pool
        self._tool = type(self).tools[ROUTE]
        self._seed = self._questions = 0
        self._task_text = ""
        self._spent: dict[asyncio.Task[Any] | None, float] = {}

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Begin a task.

        Raises: ToolDefinitionError if the environment has a tool `route`; AgentGymError without a model.
        """
        self.ended, self._questions, self._seed = False, 0, seed
        opening = await self._environment.reset(task, seed=seed)
        self._task_text = "\n\n".join(message.text for message in opening if message.role == "user")
        self._offer(task)
        return opening

    def offered(self, task: Task) -> list[str]:
        """Return the names of the models that a task may ask; a subclass may offer fewer."""
        return self._pool.offered(task.split)

    def _offer(self, task: Task) -> None:
        names = self.offered(task)
        if not names:
            raise AgentGymError(
                f"{task.id}: every model of the pool is unseen, so a task of the split {task.split!r} has none to "
                "ask. List one that is not unseen."
            )
        properties = {"model": {"type": "string", "enum": names}, "question": {"type": "string"}}
        self._tool = Tool.from_schema(
            ROUTE,
            "Ask a model, by default what the task asks. Models, with what 1,000 tokens cost that they read and write, "
            f"and each call: {'; '.join(map(self.described, names))}.",
            {"type": "object", "properties": properties, "required": ["model"]},
            self._ask,
            timeout_s=ASK_S + 30,
            parallel=False,
        )
        self._take_tools()

    def _take_tools(self) -> None:
        if ROUTE in self._environment.tools:
            raise ToolDefinitionError(f"The environment already has a tool {ROUTE!r}. Give that tool another name.")
        if self.tools.keys() != {ROUTE, *self._environment.tools} or self.tools[ROUTE] is not self._tool:
            self.tools = {ROUTE: self._tool, **self._environment.tools}
        self.role = self._environment.role

    def take_context_change(self) -> ContextChange | None:
        """Return the pending change of context, if any. With it the environment's role and tools may change."""
        if (change := super().take_context_change()) is not None:
            self._take_tools()
        return change

    def described(self, name: str) -> str:
        """Describe a model to the agent, with its prices and its note."""
        model = self._pool.prices[name]
        prices = {"read": model.price_in, "written": model.price_out, "a call": model.price_call}
        listed = ", ".join(f"{price:g} {what}" for what, price in prices.items() if price)
        return f"{name} ({listed}{': ' * bool(model.note)}{model.note})"

    @tool(parallel=False, timeout_s=ASK_S + 30)
    async def route(self, model: str, question: str | None = None) -> str:
        """Ask a model, by default what the task asks."""
        question = self._task_text if question is None else question
        if not question.strip() or len(question) > MAX_QUESTION_CHARS:
            raise ToolError(
                f"A question must have 1 to {MAX_QUESTION_CHARS} characters, but this one has {len(question)}."
            )
        policy = self._pool.policies[model]
        messages = (Message("user", question),)
        prefix = None if policy.renderer is None else policy.renderer.prompt(messages, ())
        sampling = Sampling(0.0, 1.0, MAX_ANSWER_TOKENS, seed_of(ROUTE, self._seed, self._questions))
        self._questions += 1
        try:
            request = Request(messages, (), prefix, sampling, f"{ROUTE}/{self._seed}", 0)
            reply = await policy.generate_in_time(request, ASK_S)
        except ContextFull:
            raise ToolError(f"The question is too long for {model}.") from None
        self._spent[asyncio.current_task()] = self._pool.prices[model].cost(reply, question)
        return reply.message.text

    async def _ask(self, arguments: dict[str, str]) -> str:
        return await self.route(**arguments)

    async def call(self, call: Call) -> Result:
        if call.error is None and call.name in self._environment.tools:
            result = await self._environment.call(call)
            self._take_tools()
            return result
        try:
            result = await self.call_own(call)  # one call after the other, see `parallel`
        finally:  # the cost of this call alone: each call of a message runs in a separate asyncio task
            cost = self._spent.pop(asyncio.current_task(), None)
        return result if cost is None else replace(result, usage={**result.usage, "cost": cost})

    async def respond(self, message: Message) -> list[Message]:
        return await self._environment.respond(message)

    def data(self) -> dict[str, Any]:
        return {"questions": self._questions, "seed": self._seed, "task": self._task_text}

    def restore_data(self, task: Task, data: Mapping[str, Any]) -> None:
        self._questions, self._seed, self._task_text = data["questions"], data["seed"], data["task"]
        self._offer(task)
