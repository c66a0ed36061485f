"""How a simulated user departs from a perfect one: mistakes that it corrects, typing errors, and impatience."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

FIRST_IMPATIENT = 3
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class UserBehaviour:
    """How a user errs: chances, each from 0 to 1, and a limit. What happens in a message depends only on the seed and
    the message's number.

    Attributes:
        mistakes: chance that a number in a message has one wrong digit. The next message begins with the right number.
        noise: chance, for each word of five letters or more, that two of its inner letters are swapped.
        impatience: chance of leaving instead of answering, from the fourth message on.
        max_messages: number of messages after which the user leaves.
    Raises: ValueError for a chance outside [0, 1], or fewer than 1 messages.
    """

    mistakes: float = 0.0
    noise: float = 0.0
    impatience: float = 0.0
    max_messages: int = 20

    def __post_init__(self) -> None:
        chances = (self.mistakes, self.noise, self.impatience)
        if not all(0 <= chance <= 1 for chance in chances) or self.max_messages < 1:
            raise ValueError(
                f"{self} is not valid: the chances of a user must be from 0 to 1, and max_messages at least 1."
            )

    def leaves(self, rng: random.Random, index: int) -> bool:
        """Return whether the user leaves instead of writing the message with this index, from 0."""
        impatient = rng.random() < self.impatience
        return index >= self.max_messages or (impatient and index >= FIRST_IMPATIENT)

    def write(self, rng: random.Random, text: str) -> tuple[str, str]:
        """Return an intended text as the user writes it, and the correction for the user's next message, if any."""
        correction = ""
        numbers = list(_NUMBER.finditer(text))
        if rng.random() < self.mistakes and numbers:
            chosen = rng.choice(numbers)
            wrong = _wrong_number(rng, chosen.group())
            text = text[: chosen.start()] + wrong + text[chosen.end() :]
            correction = f"Sorry, I wrote {wrong}, but it is {chosen.group()}."
        words = text.split(" ")
        return " ".join(_typed(rng, word) if rng.random() < self.noise else word for word in words), correction


def _wrong_number(rng: random.Random, number: str) -> str:
    position = rng.randrange(len(number))
    digit = rng.choice([digit for digit in "123456789" if digit != number[position]])
    return number[:position] + digit + number[position + 1 :]


def _typed(rng: random.Random, word: str) -> str:
    """Return a word with two inner letters swapped; unchanged if it is short or not all letters."""
    if len(word) < 5 or not word.isalpha():
        return word
    position = rng.randrange(1, len(word) - 2)
    return word[:position] + word[position + 1] + word[position] + word[position + 2 :]
