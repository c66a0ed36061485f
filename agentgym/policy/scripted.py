"""A policy that follows a script, for demonstrations, oracles, tests and benchmarks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from typing_extensions import override

from agentgym import strict_json
from agentgym.errors import PolicyError, ScriptEnded
from agentgym.messages import Message
from agentgym.policy.contract import FREE, Constraints, Policy, Renderer, Reply, Request
from agentgym.task.script import TaskScript
from agentgym.text import counted

Script = Callable[[Sequence[Message]], Message | str] | Sequence[Message | str]


class ScriptedPolicy(Policy):
    """Answers by a script. With a renderer its episodes are token-exact, with log-probabilities of 0.

    Args:
        script: a function from the conversation so far to the next agent message, called once per turn; or the
            messages, the k-th for turn k, or a single message. Messages start again with each attempt at the task, as
            does a script from `TaskSet.oracle`. A string is raw model text: with a
            renderer it is parsed like a model's text, without one it is speech.
        renderer: converts messages to token ids, so that demonstrations can train a model.
        name: for logs and reports.
    """

    def __init__(
        self, script: Script | Message | str, renderer: Renderer | None = None, *, name: str = "scripted"
    ) -> None:
        self.script: Script = [script] if isinstance(script, Message | str) else script
        self.renderer = renderer
        self.name = name
        # by episode: its current attempt, and that attempt's script
        self._attempts: dict[str, tuple[int, TaskScript]] = {}

    @override
    def episode_ended(self, episode: str) -> None:
        self._attempts.pop(episode, None)

    @override
    def identity(self) -> dict[str, Any]:
        script = self.script
        if not callable(script):
            script = hashlib.sha256(repr(list(script)).encode("utf-8", "replace")).hexdigest()[:32]
        return {"name": self.name, "script": script}

    @override
    async def check(self, request: Request) -> None:
        """Do nothing: `generate` checks the script's message against the constraints."""

    async def generate(self, request: Request) -> Reply:
        """Return the script's next message.

        Raises: ScriptEnded when a list of messages has ended; PolicyError for an answer that is not a message, or
            breaks the constraints of the request.
        """
        script, messages = self.script, request.messages
        if request.attempt is not None and isinstance(script, TaskScript):
            script, messages = self._script_of_attempt(script, request), request.attempt
        answer = script(messages) if callable(script) else self._line(script, request)
        if isinstance(answer, Message):
            message = answer
        elif isinstance(answer, str):
            message = Message("assistant", answer)
        else:
            raise PolicyError(
                f"The script returned {answer!r:.80}. It must return text, or a Message of the agent, such as "
                'Message("assistant", "", (Call("look", {"shelf": "a"}),)). Check that every branch has '
                "a `return`."
            )
        if request.constraints is not FREE and (unheld := _unheld(message, request.constraints)) is not None:
            raise PolicyError(
                f"The script's message {message.text!r:.80} {unheld}, which breaks the request's constraints."
            )
        if self.renderer is None:
            return Reply(message, policy_version=self.version)
        token_ids = self.renderer.encode(request.with_call_ids(message, self.renderer))
        if isinstance(answer, str):
            message = self.renderer.parse(token_ids)
        return Reply(
            message,
            token_ids,
            [0.0] * len(token_ids),
            policy_version=self.version,
            prompt_tokens=len(request.prefix_ids or ()),
            completion_tokens=len(token_ids),
        )

    def _script_of_attempt(self, script: TaskScript, request: Request) -> TaskScript:
        start, current = self._attempts.get(request.episode, (0, script))
        if start != request.start:
            start, current = self._attempts[request.episode] = request.start, current.renewed()
        return current

    @staticmethod
    def _line(script: Sequence[Message | str], request: Request) -> Message | str:
        turn = request.turn
        if turn < len(script):
            return script[turn]
        turn -= request.start
        if turn >= len(script):
            raise ScriptEnded(
                f"The script has only {counted(len(script), 'message')}, but turn {turn} needs one more. End the "
                "script with a final tool, or lower Budgets.max_turns."
            )
        return script[turn]


def _unheld(message: Message, constraints: Constraints) -> str | None:
    """Return how a message breaks the constraints, as the end of a sentence; None if it meets them."""
    if constraints.tool_choice and not any(call.name in constraints.tool_choice for call in message.calls):
        return f"does not call {' or '.join(constraints.tool_choice)}"
    if constraints.response_format is None or message.calls:
        return None
    try:
        return None if isinstance(strict_json.loads(message.text), dict) else "is not a JSON object"
    except ValueError:
        return "is not a JSON object"
