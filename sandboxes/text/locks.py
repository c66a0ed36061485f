"""`agentgym/text-locks-v1`: a lock whose wheels are set one after another to secret words."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from typing_extensions import override

from agentgym import Call, Message, Outlook, Task, ToolError, seed_of, tool

from .base import Axis, Puzzle, Script, TextEnvironment

WHEELS: Mapping[str, tuple[str, ...]] = {
    "tree": ("oak", "elm", "ash", "fir", "yew", "fig", "bay", "pine"),
    "bird": ("owl", "hen", "jay", "emu", "auk", "daw", "kea", "wren"),
    "fish": ("cod", "eel", "ray", "carp", "hake", "tuna", "perch", "trout"),
    "metal": ("tin", "iron", "zinc", "lead", "gold", "steel", "brass", "nickel"),
    "colour": ("red", "blue", "pink", "teal", "lime", "gray", "plum", "tan"),
    "tool": ("saw", "axe", "hoe", "rake", "file", "awl", "adze", "drill"),
    "gem": ("ruby", "opal", "jade", "onyx", "pearl", "amber", "topaz", "beryl"),
    "cloth": ("silk", "wool", "felt", "lace", "denim", "linen", "tweed", "cotton"),
}
"""The words of each wheel. No word is on two wheels."""
HOUSE = dict(zip(WHEELS, ("yew", "hen", "tuna", "zinc", "teal", "rake", "onyx", "felt"), strict=True))
"""The word of each wheel on the locks of the house."""
NOTES = (
    "Hint:\n{notes}",
    "A good answer meets these criteria:\n{points}",
    "An earlier attempt of yours:\n{attempt}\n\nWhat is to be said of it:\n{notes}\n\nDo it better.",
)
"""Forms in which a prompt gives words: those in which training shows hints, criteria and critiques."""


class Locks(TextEnvironment):
    """A lock with some of eight wheels, each with eight words, that shows which wheel is next.

    On a "lock of the house", each wheel has the same right word as on all such locks, but nothing reveals it. A "lock
    of its own" has other words, and the prompt may give the words of its first wheels. The episode ends after the last
    wheel, and is solved if all words are right. No result tells whether a word was right: an agent that knows nothing
    opens a lock of k wheels in one of 8^k episodes. In memory, so nothing is isolated.

    Task parameters: `wheels`, the names of the wheels in order; `words`, the right word of each wheel.
    """

    task_set = "text/locks-v1"

    id = "agentgym/text-locks-v1"
    axes = {
        "wheels": Axis(2, 8, "wheels"),
        "own": Axis(0, 1, "1: its words are not those of the house"),
        "noted": Axis(0, 8, "wheels whose words the prompt notes, where they are its own"),
    }
    levels = tuple({"wheels": wheels} for wheels in range(2, 9))

    def begin(self) -> dict[str, Any]:
        wheels, words = self.parameter("wheels", list), self.parameter("words", list)
        if len(wheels) < 2 or len(set(wheels)) != len(wheels) or not set(wheels) <= WHEELS.keys():
            raise self.refuse(
                f"parameters['wheels'] is {wheels!r:.80}. Give two or more different ones of {[*WHEELS]}."
            )
        if len(words) != len(wheels) or any(w not in WHEELS[wheel] for wheel, w in zip(wheels, words, strict=True)):
            raise self.refuse(f"parameters['words'] is {words!r:.80}. Give one word of each wheel.")
        return {"wheel": 0, "right": 0}

    @classmethod
    @override
    def least_turns(cls, task: Task) -> int:
        wheels = task.parameters.get("wheels", ())
        return len(wheels) if isinstance(wheels, list | tuple) else 1

    def solved(self) -> bool:
        return bool(self.state["right"] == len(self._parameters["wheels"]))

    def lost(self) -> bool:
        return self._is_over() and not self.solved()

    def nearness(self) -> float:
        """Return the number of right words so far, as a share of all wheels."""
        return float(self.state["right"] / len(self._parameters["wheels"]))

    async def outlook(self) -> Outlook:
        """Return the outlook: hopeless once a wheel was set to a wrong word; one turn for each wheel left."""
        hopeless = "a wheel was set to a wrong word" if self.state["right"] < self.state["wheel"] else None
        return Outlook(hopeless, turns_needed=len(self._parameters["wheels"]) - int(self.state["wheel"]))

    @tool(inline=True)
    def dial(self, word: str) -> str:
        """Set the wheel to a word, and read the name of the next wheel."""
        self.check_open()
        state, wheels = self.state, self._parameters["wheels"]
        wheel = wheels[state["wheel"]]
        if word not in WHEELS[wheel]:
            raise ToolError(f"its words are {' '.join(WHEELS[wheel])}\nat {wheel}")
        state["right"] += word == self._parameters["words"][state["wheel"]]
        state["wheel"] += 1
        self.settle()
        return "end" if self._is_over() else f"at {wheels[state['wheel']]}"

    def _is_over(self) -> bool:
        return bool(self.state["wheel"] >= len(self._parameters["wheels"]))

    @classmethod
    def invent(cls, rng: random.Random, axes: Mapping[str, int]) -> Puzzle:
        wheels = rng.sample(sorted(WHEELS), axes["wheels"])
        words = [rng.choice(WHEELS[wheel]) if axes["own"] else HOUSE[wheel] for wheel in wheels]
        prompt = f"Open the lock.\nat {wheels[0]}"
        if axes["own"] and axes["noted"]:
            notes = notes_of(words)[: axes["noted"]]
            attempt = "\n".join(f"dial(word={rng.choice(WHEELS[wheel])!r})" for wheel in wheels)
            points = "\n".join(f"- {note}" for note in notes)
            prompt += "\n\n" + rng.choice(NOTES).format(notes="\n".join(notes), points=points, attempt=attempt)
        positions = [WHEELS[wheel].index(word) for wheel, word in zip(wheels, words, strict=True)]
        return Puzzle(prompt, {"wheels": wheels, "words": words}, {"positions": positions})

    @staticmethod
    def notes(task: Task) -> list[str]:
        """Return how to set each wheel of a task, one line per wheel."""
        return notes_of(task.parameters["words"])

    @staticmethod
    def oracle(task: Task) -> Script:
        """Set each wheel to its word, read from the truth."""
        return _player(task, known=len(task.parameters["wheels"]))

    @staticmethod
    def imperfect_oracle(task: Task) -> Script:
        """Set the wheels whose words the prompt gives, and choose random words for all others."""
        lines = [line.removeprefix("- ") for line in task.prompt.split("\n")]
        return _player(task, known=sum(note in lines for note in notes_of(task.parameters["words"])))


def notes_of(words: Sequence[str]) -> list[str]:
    """Return a line for each word, such as `dial "oak"`."""
    return [f'dial "{word}"' for word in words]


def _player(task: Task, known: int) -> Script:
    """Return a script that knows the words of the first `known` wheels, and chooses the others at random."""
    wheels = task.parameters["wheels"]
    words = {
        wheel: word if index < known else random.Random(seed_of("player", task.id, wheel)).choice(WHEELS[wheel])
        for index, (wheel, word) in enumerate(zip(wheels, task.parameters["words"], strict=True))
    }

    def script(messages: Sequence[Message]) -> Message:
        last_lines = [message.text.rpartition("\n")[2] for message in reversed(messages)]
        wheel = next((line[3:] for line in last_lines if line.removeprefix("at ") in words), wheels[0])
        return Message("assistant", "", (Call("dial", {"word": words[wheel]}),))

    return script
