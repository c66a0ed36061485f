"""check_environment passes a sound environment and names the fault of every broken one."""

from __future__ import annotations

import asyncio
import itertools
import math
import random
import tempfile
import threading
import time

import pytest
from shelf import Shelf, SumIsRight, shelf_oracle, shelf_tasks

from agentgym import Call, Checkpoint, Environment, Message, Reward, Task, tool
from agentgym.errors import ConformanceError
from agentgym.reward import Components, EpisodeView
from agentgym.testing import check_environment
from agentgym.testing.counter import Counter, CounterWithState


async def findings_of(environment, reward: Reward | None = None, oracle=shelf_oracle, **options) -> list[str]:
    """What the kit finds wrong; an empty list if nothing."""
    try:
        await check_environment(
            environment, options.pop("tasks", None) or shelf_tasks(), oracle, reward=reward or SumIsRight(), **options
        )
    except ConformanceError as error:
        return error.findings
    return []


def assert_names(findings: list[str], *fragments: str) -> None:
    """One finding holds all fragments."""
    assert any(all(f in finding for f in fragments) for finding in findings), "\n".join(findings) or "nothing was found"


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

    shared: list[str] = []  # noqa: RUF012  the fault

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

    current: list[int] = []  # noqa: RUF012  the fault

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


async def test_a_world_that_ignores_its_seed_is_caught():
    assert_names(await findings_of(Dice), "not deterministic under a seed", "state_key")


class Clocked(Shelf):
    """Tells the time."""

    @tool(inline=True)
    def now(self) -> str:
        """Read the clock."""
        return str(time.perf_counter_ns())


async def test_a_world_that_reads_the_clock_is_caught():
    assert_names(await findings_of(Clocked), "not deterministic under a seed", "now({})")


class GloballySeeded(Shelf):
    """Seeds the generator that everybody shares."""

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        opening = await super().reset(task, seed=seed)
        random.seed(seed)
        random.shuffle(self.boxes)
        return opening


async def test_a_world_that_seeds_the_shared_generator_is_caught():
    assert_names(await findings_of(GloballySeeded), "shared generator", "random.Random(seed)")


class Forgetful(Shelf):
    """Overrides close and forgets the sandboxes."""

    async def close(self) -> None:
        self.boxes = []


async def test_a_close_that_forgets_the_sandboxes_is_caught():
    assert_names(await findings_of(Forgetful), "does not end the sandboxes", "super().close()")


class FileKeeper(Shelf):
    """Opens a file at reset and never closes it."""

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        self.file = open("/dev/null")  # noqa: SIM115, ASYNC230  the fault
        return await super().reset(task, seed=seed)

    def __del__(self) -> None:
        if hasattr(self, "file"):
            self.file.close()


class FolderKeeper(Shelf):
    """Makes a temporary folder at reset and leaves it."""

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        self.folder = tempfile.mkdtemp(prefix="folder_keeper_")
        made_folders.append(self.folder)
        return await super().reset(task, seed=seed)


made_folders: list[str] = []


class ThreadKeeper(Shelf):
    """Starts a thread at reset and never ends it."""

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        threading.Thread(target=all_may_end.wait, daemon=True).start()
        return await super().reset(task, seed=seed)


all_may_end = threading.Event()


class TaskKeeper(Shelf):
    """Starts an asyncio task at reset and never cancels it."""

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        started.append(asyncio.ensure_future(asyncio.sleep(3600)))
        return await super().reset(task, seed=seed)


started: list[asyncio.Future] = []


@pytest.fixture
def cleaned_up():
    all_may_end.clear()
    yield
    all_may_end.set()
    for task in started:
        task.cancel()
    started.clear()
    for folder in made_folders:
        tempfile._os.rmdir(folder)
    made_folders.clear()


@pytest.mark.parametrize(
    ("environment", "kind"),
    [
        (FileKeeper, "3 open files"), (FolderKeeper, "3 temporary files or folders"), (ThreadKeeper, "3 threads"),
        (TaskKeeper, "3 asyncio tasks"),
    ],
)  # fmt: skip
async def test_a_close_that_forgets_a_resource_is_caught_with_its_kind(environment, kind, cleaned_up):
    assert_names(await findings_of(environment), "close forgets something", kind)


class OnlyOnce(Shelf):
    """Cannot be closed twice."""

    closed = False

    async def close(self) -> None:
        if self.closed:
            raise RuntimeError("closed already")
        self.closed = True
        await super().close()


async def test_a_close_that_cannot_be_awaited_twice_is_caught():
    assert_names(await findings_of(OnlyOnce), "close, awaited twice", "closed already")


class ClosesOnlyOpened(Shelf):
    """Its close trusts that reset came before it, which a cancelled episode does not give."""

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        self.handle = object()
        return await super().reset(task, seed=seed)

    async def close(self) -> None:
        del self.__dict__["handle"]
        self.handle = None
        await super().close()


async def test_a_close_that_needs_a_reset_is_caught():
    assert_names(await findings_of(ClosesOnlyOpened), "close before reset", "KeyError")


class NotANumber(Reward):
    """Divides by the number of right answers."""

    def outcome(self, episode: EpisodeView) -> Components:
        return {"success": math.nan}


async def test_a_nan_reward_is_caught():
    assert_names(await findings_of(Shelf, NotANumber()), "failed", "RewardError", "nan", "'success'")


class TurnsNotANumber(SumIsRight):
    """A turn reward of 0/0."""

    def turn(self, turn: object, episode: EpisodeView) -> Components:
        return {"progress": math.inf - math.inf}


async def test_a_nan_turn_reward_is_caught():
    assert_names(await findings_of(Shelf, TurnsNotANumber()), "failed", "RewardError", "'progress'")


class NoSuccess(Reward):
    """Scores, but never says whether the task is solved."""

    def outcome(self, episode: EpisodeView) -> Components:
        return {"style": 1.0}


async def test_a_reward_without_success_is_caught():
    assert_names(await findings_of(Shelf, NoSuccess()), "no component 'success'")


async def test_an_environment_that_nothing_judges_is_caught():
    with pytest.raises(ConformanceError) as caught:
        await check_environment(Shelf, shelf_tasks())
    assert_names(caught.value.findings, "Nothing judges the tasks")


class Graded(Shelf):
    """Lets the agent say how well it did."""

    @tool(inline=True)
    def report(self, success: float) -> str:
        """Report how well you did, from 0 to 1."""
        return f"score {success}"


class ReadsReport(Reward):
    """Believes what the tool results say."""

    def outcome(self, episode: EpisodeView) -> Components:
        texts = [str(r.content) for t in episode.turns for r in t.results]
        return {"success": float(any(text == "score 1.0" for text in texts))}


async def test_a_tool_that_writes_the_reward_is_caught_with_the_call_that_does():
    assert_names(
        await findings_of(Graded, ReadsReport(), oracle=None), "can write its own reward", "report({'success': 1.0})"
    )


class Forgeable(Shelf):
    """Echoes the answer, and its reward searches the echo for a word."""

    @tool(final=True, inline=True)
    def answer(self, total: str) -> str:
        """Give the sum of all boxes."""
        return f"answer {total}"


class SearchesEcho(Reward):
    """Success if the result says so."""

    def outcome(self, episode: EpisodeView) -> Components:
        return {"success": float(any("success" in str(r.content) for t in episode.turns for r in t.results))}


async def test_a_reward_that_the_agent_can_write_into_a_result_is_caught():
    assert_names(await findings_of(Forgeable, SearchesEcho(), oracle=None), "can write its own reward", "answer(")


class Movable(Shelf):
    """Its tool changes the task that all episodes share."""

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        self.task = task
        return await super().reset(task, seed=seed)

    @tool(inline=True)
    def put(self, weight: int) -> str:
        """Put another box on the shelf."""
        self.task.parameters["boxes"].append(weight)
        return "done"


async def test_an_agent_that_can_change_the_task_is_caught():
    assert_names(await findings_of(Movable), "was changed by playing it", "'shelf-0'")


class Whispering(Shelf):
    """Puts the answer into the prompt."""

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        await super().reset(task, seed=seed)
        return [Message("system", f"(expected: {sum(self.boxes)})"), *task.opening()]


async def test_the_truth_in_a_prompt_is_caught():
    assert_names(await findings_of(Whispering), "shown the truth", "'shelf-0'", "on 6 of 6 tasks")


class Chatty(Shelf):
    """Tells the answer to anybody who asks."""

    async def respond(self, message: Message) -> list[Message]:
        return [Message("user", f"The sum is {sum(self.boxes)}, of course.")]


async def test_the_truth_told_to_an_agent_that_only_talks_is_caught():
    assert_names(await findings_of(Chatty), "shown the truth")


async def test_a_task_that_tells_its_own_truth_is_caught():
    tasks = [
        Task(t.id, t.environment, f"{t.prompt} ({t.truth})", parameters=t.parameters, truth=t.truth)
        for t in shelf_tasks()
    ]
    assert_names(await findings_of(Shelf, tasks=tasks), "shown the truth")


class Generous(SumIsRight):
    """Success for everybody who showed up."""

    def outcome(self, episode: EpisodeView) -> Components:
        return {"success": 1.0}


async def test_a_reward_for_doing_nothing_is_caught():
    found = await findings_of(Shelf, Generous())
    assert_names(found, "an agent that says nothing succeeds")
    assert_names(found, "acts at random succeeds on 6 of 6")


async def test_an_oracle_that_does_not_solve_is_caught_with_what_it_saw():
    def lost(task: Task):
        return lambda messages: Message("assistant", "", (Call("answer", {"total": -1}),))

    assert_names(await findings_of(Shelf, oracle=lost), "oracle does not solve 'shelf-0'", "You answered -1.")


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
    found = await findings_of(Sloppy)
    assert_names(found, "call_id 'call_0'")
    assert_names(found, "Four calls at once")


async def test_a_result_that_is_no_text_is_caught():
    class Unwriteable(Shelf):
        """Returns what no JSON can say."""

        @tool(inline=True)
        def thing(self) -> object:
            """Return an object."""
            return object()

    assert_names(await findings_of(Unwriteable), "TypeError", "not JSON serializable")


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
    assert_names(await findings_of(Unrestorable), "Checkpoint and restore", "cannot restore them")


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
