"""Two environments for training tests, written as a user would: look a number up and answer with it; press a button."""

from __future__ import annotations

import random

import agentgym
from agentgym import Call, Combined, Environment, Message, Reward, Task, TaskSet, seed_of, tool
from agentgym.registry import register

NAME = "test/lookup-v1"
PRESS = "test/press-v1"


class Lookup(Environment):
    """A shelf of numbered boxes in memory; nothing is isolated."""

    reward = "test_lookup"

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        self._boxes = task.parameters["boxes"]
        return task.opening()

    @tool(inline=True)
    def look(self, box: str) -> str:
        """See what is in a box."""
        if box not in self._boxes:
            raise agentgym.ToolError(f"There is no box {box!r}.")
        return str(self._boxes[box])

    @tool(final=True, inline=True)
    def answer(self, text: str) -> str:
        """Answer."""
        return "Thanks."


class Right(Reward):
    """1 where the answer is the content of the box."""

    def outcome(self, episode):
        last = episode.turns[-1].calls[-1:]
        answer_text = last[0].arguments.get("text") if last and last[0].name == "answer" else None
        return {"success": float(answer_text == episode.task.truth)}


class Looked(Reward):
    """A little for a look that showed something."""

    weights = {"looked": 0.2}

    def turn(self, turn, episode):
        return {"looked": float(any(r.ok and r.name == "look" for r in turn.results))}


def oracle(task: Task):
    def script(messages):
        seen = [m.text for m in messages if m.role == "tool"]
        if seen:
            return Message("assistant", "", (Call("answer", {"text": seen[-1]}),))
        return Message("assistant", "", (Call("look", {"box": task.prompt.split()[-1]}),))

    return script


def imperfect_oracle(task: Task):
    """Looks into the box beside the one that was asked for."""
    question = task.prompt.split()[-1]
    beside = "abcd"["abcd".index(question) - 1]

    def script(messages):
        seen = [m.text for m in messages if m.role == "tool"]
        if seen:
            return Message("assistant", "", (Call("answer", {"text": seen[-1]}),))
        return Message("assistant", "", (Call("look", {"box": beside}),))

    return script


def tasks(split: str, count: int) -> list[Task]:
    new_tasks = []
    for index in range(count):
        rng = random.Random(seed_of(NAME, split, index))
        boxes = {letter: str(rng.randrange(10)) for letter in "abcd"}
        box = rng.choice("abcd")
        new_tasks.append(
            Task(
                f"{split}-{index}",
                NAME,
                prompt=f"box {box}",
                parameters={"boxes": boxes, "index": f"{split}{index}"},
                truth=boxes[box],
                split=split,
            )
        )
    return new_tasks


def task_set() -> TaskSet:
    sizes = (("train", 64), ("validation", 16), ("held_out", 16))
    return TaskSet(
        NAME, {split: tasks(split, size) for split, size in sizes}, oracle=oracle, imperfect_oracle=imperfect_oracle
    )


register(NAME, Lookup)
register(NAME, task_set, kind="task_sets")
register("test_lookup", lambda: Combined(Right(), Looked()), kind="rewards")


class Press(Environment):
    """Two buttons. A policy that imitates both players presses each half of the time."""

    reward = "test_press"

    @tool(final=True, inline=True)
    def press(self, side: str) -> str:
        """Press a button."""
        return "Pressed."


class Pressed(Reward):
    """1 for the right button."""

    def outcome(self, episode):
        calls = episode.turns[-1].calls
        return {"success": float(bool(calls) and calls[-1].arguments.get("side") == "right")}


def _presser(side: str):
    return lambda task: lambda messages: Message("assistant", "", (Call("press", {"side": side}),))


def press_set() -> TaskSet:
    sizes = (("train", 64), ("validation", 16), ("held_out", 16))
    splits = {
        split: [
            Task(f"{split}-{i}", PRESS, f"{split} {i}", truth="right", split=split, hints=("Press right.",))
            for i in range(size)
        ]
        for split, size in sizes
    }
    players = {"oracle": _presser("right"), "imperfect_oracle": _presser("left")}
    return TaskSet(PRESS, splits, **players, generate=lambda task, seed: Task("", PRESS, f"new {seed}", truth="right"))


register(PRESS, Press)
register(PRESS, press_set, kind="task_sets")
register("test_press", Pressed, kind="rewards")


class Vowels(Reward):
    """Pays for each vowel, so that the episodes of random weights differ in reward."""

    weights = {"vowels": 0.1}

    def turn(self, turn, episode):
        return {"vowels": float(sum(map(turn.message.text.count, "aeiou")))}


register("test_vowels", lambda: Combined(Right(), Vowels()), kind="rewards")
