"""`agentgym/text-number-guess-v1`: find a number; each guess is answered with higher or lower."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym import Call, Message, Task, tool

from .base import Axis, Puzzle, Script, TextEnvironment


class NumberGuess(TextEnvironment):
    """A number that must be found in few guesses. Everything is in memory, so nothing is isolated.

    Task parameters: `low` and `high`, the range; `secret`; `guesses`, the number of guesses.
    """

    task_set = "text/number-guess-v1"

    id = "agentgym/text-number-guess-v1"
    axes = {
        "range": Axis(4, 1_000_000, "how many numbers it may be"),
        "spare": Axis(0, 10, "guesses beyond what halving needs"),
    }
    levels = (
        {"range": 7},
        {"range": 12},
        {"range": 15},
        {"range": 24},
        {"range": 31},
        {"range": 48},
        {"range": 100},
        {"range": 250},
        {"range": 1_000},
        {"range": 10_000},
    )

    def begin(self) -> dict[str, Any]:
        low, high, secret = (self.parameter(name, int) for name in ("low", "high", "secret"))
        if not low <= secret <= high:
            raise self.refuse(f"the secret {secret} is not from {low} to {high}.")
        return {"low": low, "high": high, "left": self.parameter("guesses", int)}

    def solved(self) -> bool:
        return bool(self.state.get("found"))

    def lost(self) -> bool:
        return bool(self.state["left"] <= 0)

    def nearness(self) -> float:
        """Return the share of the number's bits that the answers reveal, times 0.9 until it is guessed."""
        if self.solved():
            return 1.0
        span = self._parameters["high"] - self._parameters["low"] + 1
        return 0.9 * (1 - math.log(self.state["high"] - self.state["low"] + 1) / math.log(span)) if span > 1 else 0.0

    @tool(inline=True)
    def guess(self, number: int) -> str:
        """Guess the number."""
        self.check_open()
        state, secret = self.state, self._parameters["secret"]
        state["left"] -= 1
        if number == secret:
            state.update(low=secret, high=secret, found=True)
            reply = "correct"
        elif number < secret:
            state["low"] = max(state["low"], number + 1)
            reply = "higher"
        else:
            state["high"] = min(state["high"], number - 1)
            reply = "lower"
        self.settle()
        return reply if self.ended and state.get("found") else f"{reply}, {state['left']} left"

    @classmethod
    def invent(cls, rng: random.Random, axes: Mapping[str, int]) -> Puzzle:
        span = axes["range"]
        low = rng.randint(11, 60 if span < 60 else 10 * span)
        high, guesses = low + span - 1, span.bit_length() + axes["spare"]
        secret = rng.randint(low, high)
        return Puzzle(
            f"Find my number from {low} to {high} in {guesses} guesses.",
            {"low": low, "high": high, "secret": secret, "guesses": guesses},
            {"secret": secret},
        )

    @staticmethod
    def gold(task: Task) -> Message:
        """Return the right guess, from the truth."""
        return Message("assistant", "", (Call("guess", {"number": task.truth["secret"]}),))

    @staticmethod
    def oracle(task: Task) -> Script:
        """Halve the range, from the prompt and the answers; the truth is not read."""
        return _player(task, lambda low, high: (low + high) // 2)

    @staticmethod
    def imperfect_oracle(task: Task) -> Script:
        """Make the oracle's first guess, ignore the answer, and repeat the guess."""
        middle = (task.parameters["low"] + task.parameters["high"]) // 2
        return _player(task, lambda low, high: middle)


def _player(task: Task, choose: Any) -> Script:
    def script(messages: Sequence[Message]) -> Message:
        low, high = task.parameters["low"], task.parameters["high"]
        guesses = [call.arguments["number"] for message in messages for call in message.calls]
        answers = [message.text for message in messages if message.role == "tool"]
        for guess, answer in zip(guesses, answers, strict=True):
            if answer.startswith("higher"):
                low = max(low, guess + 1)
            else:
                high = min(high, guess - 1)
        return Message("assistant", "", (Call("guess", {"number": choose(low, high)}),))

    return script
