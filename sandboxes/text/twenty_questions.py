"""`agentgym/text-twenty-questions-v1`: identify a thing by asking about its properties."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from agentgym import Call, Message, Task, TaskError, ToolError, seed_of, tool

from .base import Axis, Puzzle, Script, TextEnvironment
from .things import PROPERTIES, SHELVES, THINGS


class TwentyQuestions(TextEnvironment):
    """A secret thing, and a knowledge base that answers. Everything is in memory, so nothing is isolated.

    Task parameters: `secret`; `among`, the candidates, which a tool lists; `questions`, the number of questions.
    Things and properties are those of `things.py`; a wrong guess costs a question.
    Source: the game is in LMRL-Gym, arXiv:2311.18232, where a language model answers; here a fixed table does.
    """

    task_set = "text/twenty-questions-v1"

    id = "agentgym/text-twenty-questions-v1"
    axes = {
        "among": Axis(2, len(SHELVES[0]), "things that it may be"),
        "spare": Axis(0, 16, "questions beyond what halving needs"),
        "shelf": Axis(0, 1, "0: animals, food, household; 1: instruments, vehicles, buildings"),
    }
    levels = (
        {"among": 6, "spare": 3},
        {"among": 10, "spare": 4},
        {"among": 16, "spare": 4},
        {"among": 24, "spare": 4},
        {"among": 40, "spare": 4},
        {"among": 60, "spare": 4},
        {"among": 16, "spare": 4, "shelf": 1},
        {"among": 30, "spare": 4, "shelf": 1},
        {"among": 50, "spare": 4, "shelf": 1},
    )

    def begin(self) -> dict[str, Any]:
        secret, among = self.parameter("secret", str), self.parameter("among", list)
        if secret not in among or not all(isinstance(thing, str) and thing in THINGS for thing in among):
            raise self.refuse(f"among = {str(among)[:80]} must be known things, with the secret {secret!r} among them.")
        return {"asked": [], "guessed": [], "left": self.parameter("questions", int)}

    def canonical(self) -> Any:
        """Return the questions and guesses, in any order."""
        return [sorted(set(self.state["asked"])), sorted(set(self.state["guessed"])), self.state["left"]]

    def solved(self) -> bool:
        return self._parameters["secret"] in self.state["guessed"]

    def lost(self) -> bool:
        return bool(self.state["left"] <= 0)

    def nearness(self) -> float:
        """Return the share of the candidates that the answers rule out, times 0.9 until the thing is guessed."""
        if self.solved():
            return 1.0
        among, true = self._parameters["among"], THINGS[self._parameters["secret"]]
        questions, guessed = self.state["asked"], self.state["guessed"]
        possible = sum(
            thing not in guessed and all((prop in THINGS[thing]) == (prop in true) for prop in questions)
            for thing in among
        )
        return 0.9 * (len(among) - possible) / max(len(among) - 1, 1)

    @tool(inline=True)
    def ask(self, property: str) -> str:  # noqa: A002  the word that the agent reads
        """Ask whether a property is true of it, for example eaten."""
        self.check_open()
        key = "-".join(property.casefold().split())
        if key not in PROPERTIES:
            close = get_close_matches(key[:40], PROPERTIES, n=3)
            hint = f" Did you mean {', '.join(close)}?" if close else ""
            raise ToolError(f"Nothing is known about {property[:40]!r}.{hint} The tool properties lists all there are.")
        self.state["asked"].append(key)
        self.state["left"] -= 1
        self.settle()
        return f"{'yes' if key in THINGS[self._parameters['secret']] else 'no'}, {self.state['left']} left"

    @tool(inline=True)
    def guess(self, thing: str) -> str:
        """Say what it is. A wrong guess costs a question."""
        self.check_open()
        key = "-".join(thing.casefold().split())
        if key not in self._parameters["among"]:
            raise ToolError(f"{thing[:40]!r} is none of the things that it may be. The tool things lists them.")
        self.state["guessed"].append(key)
        self.state["left"] -= 1
        self.settle()
        return f"{'right' if self.solved() else 'wrong'}, {self.state['left']} left"

    @tool(inline=True)
    def things(self) -> str:
        """List the things that it may be. This costs no question."""
        return " ".join(self._parameters["among"])

    @tool(inline=True)
    def properties(self) -> str:
        """List what may be asked: properties that some of the things have. This costs no question."""
        return " ".join(_known(self._parameters["among"]))

    @classmethod
    def invent(cls, rng: random.Random, axes: Mapping[str, int]) -> Puzzle:
        shelf = SHELVES[axes["shelf"]]
        for _ in range(1_000):
            among = sorted(rng.sample(sorted(shelf), min(axes["among"], len(shelf))))
            secret, questions = rng.choice(among), len(among).bit_length() + 1 + axes["spare"]
            if _needed(among, secret) <= questions:
                return Puzzle(
                    f"I think of a thing. Find out what it is in {questions} questions, guesses counted.",
                    {"secret": secret, "among": among, "questions": questions},
                    {"secret": secret},
                )
        raise TaskError(f"{cls.id}: no thing can be found in so few questions. Raise the axis 'spare'.")

    @staticmethod
    def gold(task: Task) -> Message:
        """Return the right guess, from the truth."""
        return Message("assistant", "", (Call("guess", {"thing": task.truth["secret"]}),))

    @staticmethod
    def oracle(task: Task) -> Script:
        """List the things, ask the question that splits the remaining things best, and guess the last one."""
        return _player(halving)

    @staticmethod
    def imperfect_oracle(task: Task) -> Script:
        """Ask random questions, and guess when one thing is left."""
        rng = random.Random(seed_of("novice", task.id))
        return _player(lambda possible: rng.choice(_known(task.parameters["among"])))


def _known(among: Sequence[str]) -> list[str]:
    return sorted(frozenset().union(*(THINGS[thing] for thing in among)))


def halving(possible: Sequence[str]) -> str:
    """Return the property that splits the things most evenly; among equal ones, the first by name."""
    counts: dict[str, int] = {}
    for thing in possible:
        for prop in THINGS[thing]:
            counts[prop] = counts.get(prop, 0) + 1
    return min(sorted(counts), key=lambda prop: abs(2 * counts[prop] - len(possible)))


def _needed(among: Sequence[str], secret: str) -> int:
    """Return the number of questions, and the guess, of a player that always asks about the `halving` property."""
    possible, count = list(among), 1
    while len(possible) > 1:
        prop = halving(possible)
        possible = [thing for thing in possible if (prop in THINGS[thing]) == (prop in THINGS[secret])]
        count += 1
    return count


def _player(choose: Any) -> Script:
    def script(messages: Sequence[Message]) -> Message:
        answers = [message.text for message in messages if message.role == "tool"]
        if not answers:
            return Message("assistant", "", (Call("things", {}),))
        properties_asked = [
            call.arguments["property"] for message in messages for call in message.calls if call.name == "ask"
        ]
        possible = answers[0].split()
        for prop, answer in zip(properties_asked, answers[1:], strict=True):
            possible = [thing for thing in possible if (prop in THINGS[thing]) == answer.startswith("yes")]
        if len(possible) == 1:
            return Message("assistant", "", (Call("guess", {"thing": possible[0]}),))
        return Message("assistant", "", (Call("ask", {"property": choose(possible)}),))

    return script
