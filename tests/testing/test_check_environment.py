"""check_environment passes a sound environment and reports faults in the state and the answers of others."""

from __future__ import annotations

import itertools
import random
import time

import pytest
from breaches import assert_names
from shelf import Shelf, SumIsRight, findings_of, shelf_oracle, shelf_tasks

from agentgym import Call, Checkpoint, Environment, Message, Task, tool
from agentgym.errors import ConformanceError
from agentgym.testing import Counter, CounterWithState, check_environment


async def test_a_sound_environment_passes():
    assert await findings_of(Shelf) == []


async def test_the_shipped_counters_pass_on_a_plain_task():
    await check_environment(Counter)
    await check_environment(CounterWithState)


async def test_the_error_lists_every_finding_and_names_the_environment():
    class Bad(Shelf):
        async def close(self) -> None:
            pass

        @tool(inline=True)
        def crash(self) -> str:
            """Divide by zero."""
            return str(1 / 0)

    with pytest.raises(ConformanceError, match=r"environment 'Bad' breaks its contract in \d+ place") as caught:
        await check_environment(Bad, shelf_tasks(), shelf_oracle, reward=SumIsRight())
    assert_names(caught.value.findings, "no docstring")
    assert_names(caught.value.findings, "await super().close()")
    assert_names(caught.value.findings, "crash", "ZeroDivisionError")


class Leaky(Shelf):
    """Keeps its notes on the class."""

    shared: list[str] = []

    @tool(inline=True)
    def note(self, text: str = "") -> str:
        """Write a note and read all notes."""
        self.shared.append(text[:100])
        return "\n".join(self.shared)


async def test_state_that_leaks_between_episodes_is_caught_with_its_class_attribute():
    assert_names(await findings_of(Leaky), "State leaks between episodes", "Leaky.shared", "note(")


_count = itertools.count()


class Remembering(Shelf):
    """Keeps a count in its module."""

    @tool(inline=True)
    def visits(self) -> int:
        """How often anybody asked."""
        return next(_count)


async def test_state_that_leaks_through_the_module_is_caught():
    assert_names(await findings_of(Remembering), "state outlives an episode", "visits({})")


class Overwritten(Shelf):
    """Keeps the boxes of the latest reset on the class: fine alone, wrong beside another episode."""

    current: list[int] = []

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        opening = await super().reset(task, seed=seed)
        type(self).current = self.boxes
        return opening

    @tool(inline=True)
    def first(self) -> int:
        """Look into the first box."""
        return self.current[0]


async def test_state_shared_by_two_episodes_at_once_is_caught():
    assert_names(await findings_of(Overwritten), "Two episodes at once disturb each other", "first({})")


class Dice(Shelf):
    """Shuffles without the seed."""

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        opening = await super().reset(task, seed=seed)
        self.boxes = [box + random.SystemRandom().randint(0, 10**6) for box in self.boxes]
        return opening


async def test_an_environment_that_ignores_its_seed_is_caught():
    assert_names(await findings_of(Dice), "not deterministic under a seed", "state_key")


class Clocked(Shelf):
    """Tells the time."""

    @tool(inline=True)
    def now(self) -> str:
        """Read the clock."""
        return str(time.perf_counter_ns())


async def test_an_environment_that_reads_the_clock_is_caught():
    assert_names(await findings_of(Clocked), "not deterministic under a seed", "now({})")


class GloballySeeded(Shelf):
    """Seeds the generator that everybody shares."""

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        opening = await super().reset(task, seed=seed)
        random.seed(seed)
        random.shuffle(self.boxes)
        return opening


async def test_an_environment_that_seeds_the_shared_generator_is_caught():
    assert_names(await findings_of(GloballySeeded), "shared generator", "random.Random(seed)")


class Raising(Shelf):
    """Its tool lets KeyError out, for what the agent asked."""

    @tool(inline=True)
    def lookup(self, key: str) -> str:
        """Look something up."""
        return {"a": "b"}[key]


async def test_a_tool_that_raises_for_what_the_agent_wrote_is_caught():
    assert_names(await findings_of(Raising), "lookup(", "raised KeyError", "ToolError")


class Sloppy(Shelf):
    """Answers calls itself and forgets whose they were."""

    async def call(self, call: Call):
        result = await super().call(call)
        result.call_id = "call_0"
        return result


async def test_results_without_the_id_of_their_call_are_caught():
    findings = await findings_of(Sloppy)
    assert_names(findings, "call_id 'call_0'")
    assert_names(findings, "Four calls at once")


async def test_a_result_that_is_no_text_is_caught():
    class Unwriteable(Shelf):
        """Returns what no JSON can say."""

        @tool(inline=True)
        def thing(self) -> object:
            """Return an object."""
            return object()

    assert_names(await findings_of(Unwriteable), "TypeError", "data of type object, which is neither text nor images")


class Amnesiac(Shelf):
    """Forgets its notes when restored."""

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        self.boxes = list(checkpoint.data["boxes"])


async def test_a_checkpoint_that_does_not_restore_is_caught():
    assert_names(await findings_of(Amnesiac), "restored checkpoint does not go on as the original")


class Unrestorable(Shelf):
    """Makes checkpoints and cannot restore them."""

    restore = Environment.restore


async def test_a_checkpoint_that_cannot_be_restored_is_caught():
    assert_names(await findings_of(Unrestorable), "Checkpoint and restore", "but does not override `restore`")


class Mute(Shelf):
    """Opens with nothing."""

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        await super().reset(task, seed=seed)
        return []


async def test_an_opening_without_messages_is_caught():
    assert_names(await findings_of(Mute), "the opening is a list of at least one Message")


async def test_a_reset_that_fails_says_that_a_task_set_may_be_needed():
    with pytest.raises(ConformanceError, match=r"KeyError on task 'conformance'.*give check_environment a task set"):
        await check_environment(Shelf)


async def test_a_factory_that_hands_out_one_instance_is_caught():
    shelf = Shelf()
    assert_names(await findings_of(lambda: shelf), "same instance twice")


async def test_a_factory_of_something_else_is_caught():
    assert_names(await findings_of(object), "which is no Environment")
