"""with_routing: other models as a tool, each at its price, so that an agent learns whom to ask."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from agentgym.environment import ContextChange, Environment
from agentgym.errors import AgentGymError, ContextFull, PolicyError, ToolDefinitionError, ToolError
from agentgym.messages import Call, Message, Result
from agentgym.policy import Policy, Reply, Request, Sampling
from agentgym.task import Task, seed_of
from agentgym.tools import Tool
from agentgym.wrapper import EnvironmentWrapper

ROUTE = "route"
MAX_QUESTION_CHARS, MAX_ANSWER_TOKENS = 4_000, 512
ASK_S = 120.0


@dataclass(frozen=True, slots=True)
class PricedModel:
    """What is known of a model, and what it costs in any unit of money.

    Attributes:
        note: what it is good at, for the agent.
        price_in, price_out: of 1,000 tokens that it reads and writes. price_call: of each question, on top.
        unseen: offered in tasks of validation and held-out splits alone, never in training.
    Raises: ValueError for a price below 0, or none at all.
    """

    note: str = ""
    price_in: float = 0.0
    price_out: float = 0.0
    price_call: float = 0.0
    unseen: bool = False

    def __post_init__(self) -> None:
        prices = (self.price_in, self.price_out, self.price_call)
        if not all(0 <= price < math.inf for price in prices) or not any(prices):
            raise ValueError(f"{self} needs prices of at least 0, one of them above 0.")

    def cost(self, reply: Reply, question: str) -> float:
        """Of a question. Where the policy counts no tokens, its words are counted."""
        read = reply.prompt_tokens or len(question.split())
        written = reply.completion_tokens or len(reply.token_ids or ()) or len(reply.message.text.split())
        return self.price_call + (self.price_in * read + self.price_out * written) / 1000


class ModelPool:
    """Models by name, with the price list.

    Args:
        policies: who answers. prices: one for each of them.
    Raises: AgentGymError naming a model that only one of the two has.
    """

    def __init__(self, policies: Mapping[str, Policy], prices: Mapping[str, PricedModel]) -> None:
        for name in (*policies, *prices):
            if name not in prices:
                raise AgentGymError(f"The price list has no {name!r}. It has: {', '.join(prices) or 'nothing'}.")
            if name not in policies:
                raise AgentGymError(f"The price list has {name!r}, and no policy answers for it.")
        if not policies:
            raise AgentGymError("A pool has at least one model.")
        self.policies, self.prices = dict(policies), dict(prices)

    def offered(self, split: str) -> list[str]:
        """Names of the models that tasks of a split may ask."""
        return [name for name, model in self.prices.items() if split != "train" or not model.unseen]


def with_routing(make: Callable[[], Environment], pool: ModelPool) -> Callable[[], Routing]:
    """A factory of environments in which the agent may ask other models, for `RolloutConfig(environment=...)`.

    Args:
        make: makes the environment, for example `functools.partial(agentgym.make, "agentgym/search-v1")`.
    Source: Router-R1, Zhang et al. 2025, arXiv:2506.09033: models as a tool, described in the prompt, and a reward that
        is the answer's less the cost (here the reward `spent_cost`).
    """
    return lambda: Routing(make(), pool)


class Routing(EnvironmentWrapper):
    """An environment with the tool `route(model, question)`. Isolated as the environment is; models run where they run.

    What a question costs is recorded as `cost` in the usage of its turn. A model that fails is a failure of the
    infrastructure, a question that is too long for it a result.

    Args:
        environment, pool: as of `with_routing`.
    """

    def __init__(self, environment: Environment, pool: ModelPool) -> None:
        super().__init__(environment)
        self._pool = pool
        self._tool: Tool | None = None
        self._seed = self._questions = 0
        self._spent: list[float] = []

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Raises: ToolDefinitionError where the environment has a tool `route`; AgentGymError without a model."""
        self._ended, self._questions, self._seed = False, 0, seed
        opening = await self._environment.reset(task, seed=seed)
        self._offer(task)
        return opening

    def _offer(self, task: Task) -> None:
        names = self._pool.offered(task.split)
        if not names:
            raise AgentGymError(
                f"{task.id}: all models of the pool are unseen, so a task of {task.split} may ask none."
            )
        described = [f"{name} ({self._described(name)})" for name in names]
        properties = {"model": {"type": "string", "enum": names}, "question": {"type": "string"}}
        about = (
            f"Ask a model. Models, with prices of 1,000 tokens read and written and of a call: {'; '.join(described)}."
        )
        self._tool = Tool.from_schema(
            ROUTE,
            about,
            {"type": "object", "properties": properties, "required": [*properties]},
            self._ask,
            timeout_s=ASK_S + 30,
            parallel=False,
        )
        self._take_tools()

    def _take_tools(self) -> None:
        assert self._tool is not None
        if ROUTE in self._environment.tools:
            raise ToolDefinitionError(f"The environment has a tool {ROUTE!r} already: give it another name.")
        if self.tools.keys() != {ROUTE, *self._environment.tools}:
            self.tools = {ROUTE: self._tool, **self._environment.tools}
        self.role = self._environment.role

    def take_context_change(self) -> ContextChange | None:
        """As Environment. Role and tools of the environment may change with the context."""
        if (change := super().take_context_change()) is not None:
            self._take_tools()
        return change

    def _described(self, name: str) -> str:
        model = self._pool.prices[name]
        return f"{model.price_in:g}, {model.price_out:g} and {model.price_call:g}{': ' * bool(model.note)}{model.note}"

    async def _ask(self, arguments: dict[str, Any]) -> str:
        name, question = arguments["model"], arguments["question"]
        if not question.strip() or len(question) > MAX_QUESTION_CHARS:
            raise ToolError(f"A question has 1 to {MAX_QUESTION_CHARS} characters, and this one {len(question)}.")
        policy = self._pool.policies[name]
        messages = (Message("user", question),)
        prefix = None if policy.renderer is None else policy.renderer.prompt(messages, ())
        sampling = Sampling(0.0, 1.0, MAX_ANSWER_TOKENS, seed_of(ROUTE, self._seed, self._questions))
        self._questions += 1
        try:
            async with asyncio.timeout(ASK_S):
                reply = await policy.generate(Request(messages, (), prefix, sampling, f"{ROUTE}/{self._seed}", 0))
        except ContextFull:
            raise ToolError(f"The question is too long for {name}.") from None
        except TimeoutError as error:
            raise PolicyError(f"The model {name!r} said nothing in {ASK_S:g} s.") from error
        self._spent.append(self._pool.prices[name].cost(reply, question))
        return reply.message.text

    async def call(self, call: Call) -> Result:
        if call.error is None and call.name in self._environment.tools:
            result = await self._environment.call(call)
            self._take_tools()
            return result
        result = await self.call_own(call)  # one after the other, see `parallel`
        if call.name == ROUTE and self._spent:
            return replace(result, usage={**result.usage, "cost": self._spent.pop(0)})
        return result

    async def respond(self, message: Message) -> list[Message]:
        return await self._environment.respond(message)

    def data(self) -> dict[str, Any]:
        return {"questions": self._questions, "seed": self._seed}

    def restore_data(self, task: Task, data: Mapping[str, Any]) -> None:
        self._questions, self._seed = data["questions"], data["seed"]
        self._offer(task)
