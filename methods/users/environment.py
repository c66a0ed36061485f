"""with_user: adds a simulated user, who tells the agent its task, to any environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentgym import Call, Environment, Message, Result, Task
from agentgym.environment import EnvironmentWrapper

from .simulated import SimulatedUser


def with_user(
    make: Callable[[], Environment], make_user: Callable[[Task], SimulatedUser]
) -> Callable[[], UserEnvironment]:
    """Return a factory of environments with a user, for `RolloutConfig(environment=...)` or `agentgym.register`.

    Args:
        make: makes the environment, for example `functools.partial(agentgym.make, "agentgym/sql-v1")`.
        make_user: makes the user, given the task without its truth. The task's prompt states the user's goal, so
            `SimulatedUser(policy, persona, goal=task.prompt)` is the usual choice.
    """
    return lambda: UserEnvironment(make(), make_user)


class UserEnvironment(EnvironmentWrapper):
    """An environment whose task the agent learns only from a user. It is as isolated as the wrapped one.

    The system messages of the environment's opening stay; the user's first message replaces the others, and the user
    answers the agent's messages. When the user leaves, the episode ends with the agent's last message as its answer.

    Args:
        environment: the environment of one episode. make_user: as for `with_user`.
    """

    is_transparent = True

    def __init__(self, environment: Environment, make_user: Callable[[Task], SimulatedUser]) -> None:
        super().__init__(environment)
        self._make_user = make_user
        self._user: SimulatedUser | None = None

    @property
    def user(self) -> SimulatedUser:
        """Return the user of this episode. Raises: RuntimeError before the reset."""
        if self._user is None:
            raise RuntimeError("The user does not exist before reset. Call reset first.")
        return self._user

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Begin a task. Raises: PolicyError if the user does not begin."""
        opening = [message for message in await self._environment.reset(task, seed=seed) if message.role == "system"]
        self.tools = self._environment.tools
        self._user = self._make_user(task)
        self._user.begin(seed)
        text, _ = await self._user.answer("Hello, how can I help?")
        return [*opening, Message("user", text)]

    async def respond(self, message: Message) -> list[Message]:
        text, leaves = await self.user.answer(message.text)
        return [] if leaves else [Message("user", text)]

    @property
    def private_texts(self) -> Sequence[str]:  # type: ignore[override]
        return [self.user.goal, *self._environment.private_texts]

    def data(self) -> dict[str, Any]:
        return self.user.data()

    def restore_data(self, task: Task, data: Mapping[str, Any]) -> None:
        self._user = self._make_user(task)
        self._user.restore(data)

    async def call(self, call: Call) -> Result:
        result = await self._environment.call(call)
        self.tools = self._environment.tools  # an environment may add and remove tools
        return result
