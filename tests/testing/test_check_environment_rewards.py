"""check_environment names who succeeds and must not, and what shows the truth."""

from __future__ import annotations

import math

import pytest
from breaches import assert_names
from shelf import Shelf, SumIsRight, findings_of, shelf_oracle, shelf_tasks

from agentgym import Call, Environment, Message, Reward, Task, Trajectory, tool
from agentgym.errors import ConformanceError
from agentgym.reward import Components
from agentgym.testing import check_environment


class NotANumber(Reward):
    """Divides by the number of right answers."""

    def outcome(self, episode: Trajectory) -> Components:
        return {"success": math.nan}


async def test_a_nan_reward_is_caught():
    assert_names(await findings_of(Shelf, NotANumber()), "failed", "RewardError", "nan", "'success'")


class TurnsNotANumber(SumIsRight):
    """A turn reward of 0/0."""

    def turn(self, turn: object, episode: Trajectory) -> Components:
        return {"progress": math.inf - math.inf}


async def test_a_nan_turn_reward_is_caught():
    assert_names(await findings_of(Shelf, TurnsNotANumber()), "failed", "RewardError", "'progress'")


class NoSuccess(Reward):
    """Scores, but never says whether the task is solved."""

    def outcome(self, episode: Trajectory) -> Components:
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

    def outcome(self, episode: Trajectory) -> Components:
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

    def outcome(self, episode: Trajectory) -> Components:
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

    def outcome(self, episode: Trajectory) -> Components:
        return {"success": 1.0}


async def test_a_reward_for_doing_nothing_is_caught():
    findings = await findings_of(Shelf, Generous())
    assert_names(findings, "an agent that says nothing succeeds")
    assert_names(findings, "acts at random succeeds on 6 of 6")


async def test_an_oracle_that_does_not_solve_is_caught_with_what_it_saw():
    def lost(task: Task):
        return lambda messages: Message("assistant", "", (Call("answer", {"total": -1}),))

    assert_names(await findings_of(Shelf, oracle=lost), "oracle does not solve 'shelf-0'", "You answered -1.")


class PaysForOpening(SumIsRight):
    """Pays for every turn with a call of `open_box`, as a tutorial once did."""

    weights = {"opened": 0.5}

    def turn(self, turn, episode: Trajectory) -> Components:
        return {"opened": float(any(call.name == "open_box" for call in turn.calls))}


async def test_a_turn_reward_that_an_agent_can_farm_is_caught_with_the_call_that_farms():
    assert_names(await findings_of(Shelf, PaysForOpening()), "can be farmed", "open_box(", "without success", "opened")


class PaysForEachBox(SumIsRight):
    """Pays once for every box that was really opened."""

    weights = {"opened": 0.5}

    def turn(self, turn, episode: Trajectory) -> Components:
        def opened(t):
            return {repr(c.arguments) for c, r in zip(t.calls, t.results, strict=True) if c.name == "open_box" and r.ok}

        before = set().union(*(opened(t) for t in episode.turns if t.index < turn.index))
        return {"opened": float(len(opened(turn) - before))}


async def test_a_turn_reward_that_pays_once_for_what_was_found_out_passes():
    checked = await check_environment(Shelf, shelf_tasks(), shelf_oracle, reward=PaysForEachBox())
    assert any("repeat one call earn less than the oracle" in line for line in checked)


async def test_a_reward_that_always_pays_is_reported_as_one_cause_and_not_by_every_attack():
    findings = await findings_of(Shelf, Generous())
    assert not any("hacked" in finding or "write its own" in finding for finding in findings)


class Mute(Environment):
    """Forgot to mark its methods as tools. In memory."""

    def look(self) -> str:
        """Look around."""
        return "nothing"


async def test_an_environment_without_any_tool_is_named():
    with pytest.raises(ConformanceError, match=r"no tool and answers no message"):
        await check_environment(Mute)
