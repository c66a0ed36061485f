"""`agentgym/text-wordle-v1`: find a word; each guess is answered letter by letter."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from agentgym import Call, Message, Task, TaskError, ToolError, seed_of, tool

from .base import Axis, Puzzle, Script, TextEnvironment
from .words import WORDS


class Wordle(TextEnvironment):
    """A secret word that must be found. Everything is in memory, so nothing is isolated.

    Task parameters: `secret`; `guesses`, the number of guesses; `among`, the possible words, which a tool lists.
    A guess is any letters, as many as in the secret.
    """

    task_set = "text/wordle-v1"

    id = "agentgym/text-wordle-v1"
    axes = {
        "letters": Axis(4, 6, "letters of the word"),
        "among": Axis(4, 300, "words it may be"),
        "guesses": Axis(3, 12, "guesses"),
    }
    levels = (
        {"letters": 4, "among": 8, "guesses": 6},
        {"letters": 4, "among": 16, "guesses": 6},
        {"letters": 5, "among": 12, "guesses": 6},
        {"letters": 5, "among": 24, "guesses": 6},
        {"letters": 5, "among": 48, "guesses": 6},
        {"letters": 5, "among": 48, "guesses": 5},
        {"letters": 6, "among": 32, "guesses": 5},
        {"letters": 6, "among": 64, "guesses": 5},
        {"letters": 5, "among": 300, "guesses": 6},
    )

    def begin(self) -> dict[str, Any]:
        secret, among = self.parameter("secret", str), self.parameter("among", list)
        if secret not in among or not all(isinstance(word, str) and len(word) == len(secret) for word in among):
            raise self.refuse(
                f"among = {str(among)[:80]} must be words as long as the secret {secret!r}, with the secret among them."
            )
        return {"guessed": [], "left": self.parameter("guesses", int)}

    def canonical(self) -> Any:
        """Return the guesses, in any order."""
        return [sorted(self.state["guessed"]), self.state["left"]]

    def solved(self) -> bool:
        return self._parameters["secret"] in self.state["guessed"]

    def lost(self) -> bool:
        return bool(self.state["left"] <= 0)

    def nearness(self) -> float:
        """Return the share of the words that the answers rule out, times 0.9 until the word is guessed."""
        if self.solved():
            return 1.0
        secret, among = self._parameters["secret"], self._parameters["among"]
        answers = [(guess, marks(guess, secret)) for guess in self.state["guessed"]]
        possible = sum(all(marks(guess, word) == answer_marks for guess, answer_marks in answers) for word in among)
        return 0.9 * (len(among) - possible) / max(len(among) - 1, 1)

    @tool(inline=True)
    def guess(self, word: str) -> str:
        """Guess the word. Each letter is marked: G right, Y in another place, - not in the word."""
        self.check_open()
        secret, word = self._parameters["secret"], word.strip().lower()
        if len(word) != len(secret) or not (word.isascii() and word.isalpha()):
            raise ToolError(f"A guess has {len(secret)} letters from a to z; this is {word[:20]!r}.")
        self.state["guessed"].append(word)
        self.state["left"] -= 1
        self.settle()
        return f"{marks(word, secret)}, {self.state['left']} left"

    @tool(inline=True)
    def words(self) -> str:
        """List the words that it may be. This costs no guess."""
        return " ".join(self._parameters["among"])

    @classmethod
    def invent(cls, rng: random.Random, axes: Mapping[str, int]) -> Puzzle:
        letters, guesses = axes["letters"], axes["guesses"]
        for _ in range(1_000):
            among = sorted(rng.sample(WORDS[letters], min(axes["among"], len(WORDS[letters]))))
            secret = rng.choice(among)
            if _guesses_needed(among, secret) <= guesses:
                return Puzzle(
                    f"Find my word of {letters} letters in {guesses} guesses.",
                    {"secret": secret, "guesses": guesses, "among": among},
                    {"secret": secret},
                )
        raise TaskError(f"{cls.id}: no word can be found in {guesses} guesses. Ask for more guesses.")

    @staticmethod
    def gold(task: Task) -> Message:
        """Return the right guess, from the truth."""
        return Message("assistant", "", (Call("guess", {"word": task.truth["secret"]}),))

    @staticmethod
    def oracle(task: Task) -> Script:
        """List the words, then guess the possible word that splits the others best; the truth is not read."""
        return _player(best)

    @staticmethod
    def imperfect_oracle(task: Task) -> Script:
        """List the words, then guess at random, ignoring the answers."""
        rng = random.Random(seed_of("novice", task.id))
        return _player(lambda possible: rng.choice(task.parameters["among"]))


@lru_cache(maxsize=400_000)
def marks(guess: str, secret: str) -> str:
    """Return one mark per letter: `G` right, `Y` in another place, `-` absent, or not as often."""
    result = ["G" if guessed == actual else "-" for guessed, actual in zip(guess, secret, strict=True)]
    spare = [actual for mark, actual in zip(result, secret, strict=True) if mark == "-"]
    for position, letter in enumerate(guess):
        if result[position] == "-" and letter in spare:
            spare.remove(letter)
            result[position] = "Y"
    return "".join(result)


def best(possible: Sequence[str]) -> str:
    """Return the first word that splits the possible words into the most parts; only the first six are tried."""
    return max(possible[:6], key=lambda guess: len({marks(guess, word) for word in possible}))


def _guesses_needed(among: Sequence[str], secret: str) -> int:
    """Return the number of guesses of a player that always guesses `best`."""
    possible, count = list(among), 1
    while (guess := best(possible)) != secret:
        answer_marks = marks(guess, secret)
        possible, count = [word for word in possible if marks(guess, word) == answer_marks], count + 1
    return count


def _player(choose: Any) -> Script:
    def script(messages: Sequence[Message]) -> Message:
        answers = [message.text for message in messages if message.role == "tool"]
        if not answers:
            return Message("assistant", "", (Call("words", {}),))
        guesses = [call.arguments["word"] for message in messages for call in message.calls if call.name == "guess"]
        possible = answers[0].split()
        for guess, answer in zip(guesses, answers[1:], strict=True):
            answer_marks = answer.partition(",")[0]
            possible = [word for word in possible if marks(guess, word) == answer_marks]
        return Message("assistant", "", (Call("guess", {"word": choose(possible)}),))

    return script
