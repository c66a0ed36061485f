"""The base of environments with requests that come one at a time: each takes one call, right or wrong."""

from __future__ import annotations

import hashlib
import json
from abc import ABC
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from typing_extensions import override

from agentgym import Call, Checkpoint, Environment, Message, Outlook, Result, ResultStatus, Task, TaskError, ToolError

OVER = "No more requests. Verdicts: "
"""Begins the last line of the last request's result; a 1 or 0 for each request follows, for the reward `session`. The
agent never reads this line, because it ends the episode, and cannot write it: all other results end with a
request, or with a refusal by us or the framework.
"""
ANSWERED = frozenset({ResultStatus.OK, ResultStatus.TOOL_ERROR})
"""Statuses of calls that use up their request. After any other status the agent may try the request again."""


class SessionEnvironment(Environment, ABC):
    """Base of the environments with requests one at a time. The subclass decides what is isolated.

    The first request is the task's prompt; each later one is the last line of the result before it. A call uses up its
    request even if it does something else, and its result does not reveal this. After the last request the
    episode ends. A call that cannot be read, and a message without a call, use up no request.

    Task parameters: `requests`, texts, and `goals`, the required result of each request in the subclass's own form.

    In its tool, a subclass first calls `check_open`, and at the end returns the result of `next_request`. It adds its
    own state in `state_key`, `checkpoint` and `restore`.
    """

    reward = "session"
    system: ClassVar[str]

    def __init__(self) -> None:
        self._requests: Sequence[str] = ()
        self._goals: Sequence[Any] = ()
        self._verdicts = ""  # 1 or 0 for each request so far
        self._identity = b""

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Begin with the first request. Raises: TaskError if the parameters are not valid."""
        requests: Any = task.parameters.get("requests")
        goals: Any = task.parameters.get("goals")
        if not _are_texts(requests) or not isinstance(goals, list | tuple) or len(goals) != len(requests):
            raise TaskError(
                f"{task.id}: parameters['requests'] is {requests!r:.80} and parameters['goals'] is {goals!r:.80}. "
                "Give a list of texts, and a goal for each."
            )
        self._requests, self._goals, self._verdicts, self.ended = requests, goals, "", False
        parameters = json.dumps(dict(task.parameters), sort_keys=True)
        self._identity = hashlib.blake2b(parameters.encode(), digest_size=16).digest()
        return [Message("system", self.system_text()), *task.opening()]

    def system_text(self) -> str:
        """Return the system message."""
        return self.system

    @property
    def goal(self) -> Any:
        """Return the goal of the current request."""
        return self._goals[len(self._verdicts)]

    def check_open(self) -> None:
        """Check that a request is left; every tool calls this first. Raises: ToolError if all are used up."""
        if len(self._verdicts) == len(self._requests):
            raise ToolError("There are no more requests: nothing changes any more.")

    def next_request(self, answer: str, *, right: bool) -> str:
        """Use up the current request, and end the episode if it was the last.

        Args:
            answer: the tool's answer, which must not reveal whether the request was done correctly.
            right: whether the request was done correctly.
        Returns: the text of the result.
        """
        self._verdicts += "1" if right else "0"
        if len(self._verdicts) == len(self._requests):
            self.end_episode()
            line = f"{OVER}{self._verdicts}"
        else:
            line = self._requests[len(self._verdicts)]
        return f"{answer}\n{line}" if answer else line

    async def call(self, call: Call) -> Result:
        """Run one call. If it does not use up its request, its result repeats the request."""
        result = await super().call(call)
        if result.status in ANSWERED or self.ended or not self._requests:
            return result
        return replace(result, content=f"{result.content}\n{self._requests[len(self._verdicts)]}")

    @classmethod
    @override
    def least_turns(cls, task: Task) -> int:
        requests = task.parameters.get("requests", ())
        return len(requests) if isinstance(requests, list | tuple) else 1

    async def respond(self, message: Message) -> list[Message]:
        """Repeat the request to an agent that makes no call."""
        return [] if self.ended else [Message("user", self._requests[len(self._verdicts)])]

    async def potential(self) -> float | None:
        """Return the share of the requests that were done correctly so far."""
        return self._verdicts.count("1") / len(self._requests)

    async def outlook(self) -> Outlook:
        """Return the outlook: hopeless after a wrong answer; needs one turn for each remaining request."""
        wrong = self._verdicts.find("0")
        hopeless = f"request {wrong + 1} was not done rightly" if wrong >= 0 else None
        return Outlook(hopeless, turns_needed=len(self._requests) - len(self._verdicts))

    def session_key(self, state: str) -> str:
        """Return a hash of the task, the verdicts so far, and the subclass's own state."""
        text = f"{self._verdicts} {state}"
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=self._identity, digest_size=12).hexdigest()

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        """Reset, then continue after the requests that have a verdict in the checkpoint."""
        await self.reset(task, seed=seed)
        self._verdicts = checkpoint.data["verdicts"]
        if len(self._verdicts) == len(self._requests):
            self.end_episode()


def _are_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) > 0 and all(isinstance(item, str) and item for item in value)
