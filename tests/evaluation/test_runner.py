"""Evaluation end to end in a small environment: what is counted, what is left out, what goes on after a kill."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from agentgym import (
    Budgets,
    Call,
    Message,
    Policy,
    RolloutConfig,
    ScriptedPolicy,
    Task,
    TaskSet,
    ToolError,
    Trajectory,
    Turn,
    compare,
    evaluate,
)
from agentgym.cli.tables import evaluation_table
from agentgym.errors import ContextFull, EvaluationError, HeldOutError, PolicyError, SandboxDied, TaskError
from agentgym.evaluation import Evaluation
from agentgym.evaluation.price import Price
from agentgym.evaluation.runner import choose, from_trajectories
from agentgym.evaluation.text import format_evaluation, format_gains, format_projection, format_usage
from agentgym.messages import Result, ResultStatus, StopReason
from agentgym.policy import Reply
from agentgym.storage.failures import count_failures
from agentgym.storage.ledger import Ledger
from agentgym.testing import Counter, TargetReached

TASKS = [
    Task(f"count-{i}", "acme/counter-v1", f"Count to {i}.", truth=i, split="held_out", tags=(("even", "odd")[i % 2],))
    for i in range(8)
]
SET = TaskSet("acme/counts-v1", {"held_out": TASKS})


def counts_to(value: int) -> ScriptedPolicy:
    return ScriptedPolicy(
        [Message("assistant", "", (Call("add", {"amount": value}),)), Message("assistant", "", (Call("submit"),))]
    )


def perfect(task: Task) -> ScriptedPolicy:
    return counts_to(int(task.prompt.split()[-1].rstrip(".")))


def only_even(task: Task) -> ScriptedPolicy:
    return perfect(task) if "even" in task.tags else counts_to(99)


def play(policy, **options):
    own = {
        name: options.pop(name)
        for name in ("label", "limit", "ledger", "progress", "price", "max_cost")
        if name in options
    }
    options = {"environment": Counter, "reward": TargetReached()} | options
    return evaluate(policy, SET, "held_out", config=RolloutConfig(**options), **own)


async def test_success_turns_and_tags_come_out_as_played():
    got = await play(only_even, group_size=2)
    assert [row.success for row in got.rows] == [[1.0, 1.0], [0.0, 0.0]] * 4
    assert all(row.turns == [2, 2] and row.stop == ["answered"] * 2 for row in got.rows)
    assert got.success().value == 0.5
    assert got.success("even").value == 1.0
    assert got.pass_at(2) == got.pass_hat(2) == 0.5
    assert got.execution_rate() == 1.0
    assert got.failures() == {"wrong_answer": 8}


async def test_the_record_survives_json_and_a_newer_versions_keys():
    got = await play(only_even)
    data = json.loads(json.dumps(got.to_json()))
    assert Evaluation.from_json(data) == got
    data["invented_later"] = 1
    data["rows"][0]["invented_later"] = 1
    assert Evaluation.from_json(data) == got


async def test_a_failed_episode_is_counted_and_is_no_zero():
    class Breaks(Counter):
        async def reset(self, task, *, seed):
            if task.id == "count-3":
                raise SandboxDied("gone")
            return await super().reset(task, seed=seed)

    got = await play(perfect, environment=Breaks, budgets=Budgets(infra_retries=0))
    assert got.failed == 1
    assert got.rows[3].success == [None]
    assert got.success().value == 1.0
    assert got.success().n == 7
    assert got.failures() == {"failed": 1}


async def test_a_broken_off_evaluation_goes_on_and_plays_nothing_twice(tmp_path):
    played_ids: list[str] = []

    def recording(task):
        played_ids.append(task.id)
        return only_even(task)

    class StopError(Exception):
        pass

    def stop_after_three(state):
        if state.done == 3:
            raise StopError

    ledger = Ledger(tmp_path / "ledger.sqlite")
    with pytest.raises(StopError):
        await play(recording, ledger=ledger, concurrency=1, progress=stop_after_three)
    ledger.close()
    before = list(played_ids)
    ledger = Ledger(tmp_path / "ledger.sqlite")
    finished_ids = {name.rpartition("/")[2].partition("#")[0] for name in ledger.finished("evaluation/held_out")}
    got = await play(recording, ledger=ledger, concurrency=1)
    ledger.close()
    assert len(finished_ids) >= 3
    assert not finished_ids & set(played_ids[len(before) :])
    untouched = await play(only_even)
    assert [row.success for row in got.rows] == [row.success for row in untouched.rows]
    assert got.manifest == untouched.manifest


async def test_a_ledger_of_another_measurement_is_not_taken_for_this_one(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    try:
        await play(only_even, ledger=ledger)
        with pytest.raises(EvaluationError, match="seed was 0, now 1"):
            await play(only_even, ledger=ledger, seed=1)
    finally:
        ledger.close()


async def test_gain_is_paired_by_task():
    before, after = await play(only_even, label="before"), await play(perfect, label="after")
    gain = compare(before, after)
    assert gain.difference.value == 0.5
    assert (gain.better, gain.worse, gain.same) == (4, 0, 4)
    assert gain.p_value == pytest.approx(2 / 2**4)
    assert compare(before, after, tag="even").difference.value == 0.0
    summary = format_gains(before, after)
    assert "50% -> 100%" in summary
    assert "gain +50 points" in summary


async def test_evaluations_of_other_tasks_are_not_compared():
    small, full = await play(perfect, limit=4, label="small"), await play(perfect, label="whole")
    with pytest.raises(EvaluationError, match="4 only in the second"):
        compare(small, full)
    changed = TaskSet(
        "acme/counts-v1", {"held_out": [*TASKS[:7], Task("count-7", "acme/counter-v1", "Seven!", truth=7)]}
    )
    other = await evaluate(
        lambda _: counts_to(7), changed, "held_out", config=RolloutConfig(environment=Counter, reward=TargetReached())
    )
    with pytest.raises(EvaluationError, match="so the task set has changed in between"):
        compare(full, other)


async def test_a_limit_takes_the_same_tasks_every_time_and_not_just_the_first():
    tasks = [Task(f"t{i}", "acme/counter-v1", f"Count to {i}.") for i in range(400)]
    big = TaskSet("acme/many-v1", {"train": tasks})
    chosen = [task.id for task in choose(big, "train", 20)]
    assert chosen == [task.id for task in choose(big, "train", 20)]
    assert chosen == [task.id for task in choose(big, "train", 50)][:20]
    assert max(int(name[1:]) for name in chosen) > 200


async def test_held_out_cannot_be_read_while_training():
    with TaskSet.training_only(), pytest.raises(HeldOutError, match="only measure"):
        await play(perfect)


async def test_progress_counts_every_episode():
    seen = []
    await play(only_even, group_size=2, progress=seen.append)
    assert (seen[-1].done, seen[-1].total, seen[-1].solved, seen[-1].failed) == (16, 16, 8.0, 0)
    assert [state.done for state in seen] == list(range(1, 17))


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"group_size": 0}, ValueError, "RolloutConfig.group_size is 0"),
        ({"limit": 0}, EvaluationError, "at least 1 task"),
        ({"reward": None}, EvaluationError, "was judged without a component 'success"),
    ],
)
async def test_what_cannot_be_measured_is_refused(options, error, text):
    with pytest.raises(error, match=text):
        await play(perfect, **options)


async def test_an_empty_split_is_refused():
    with pytest.raises(TaskError, match="no tasks in 'train'"):
        await evaluate(perfect, SET, "train")


def test_a_half_played_set_is_no_evaluation():
    def episode(task: str, sample: int) -> Trajectory:
        t = Trajectory(f"r/{task}#{sample}", Task(task, "acme/counter-v1", "?"), sample, outcome={"success": 1.0})
        t.turns, t.stop_reason = [Turn(0, Message("assistant", "x"))], StopReason.ANSWERED
        return t

    trajectories = [episode("a", 0), episode("a", 1), episode("b", 0)]
    with pytest.raises(EvaluationError, match="'b'"):
        from_trajectories(trajectories, label="x", task_set=SET, split="held_out", policy="p", config=RolloutConfig())
    with pytest.raises(EvaluationError, match="no episode was played"):
        from_trajectories([], label="x", task_set=SET, split="held_out", policy="p", config=RolloutConfig())


def test_a_broken_record_says_what_is_missing(tmp_path):
    (tmp_path / "x.json").write_text('{"label": "x"}')
    with pytest.raises(EvaluationError, match=r"x\.json is not an evaluation record.*rows"):
        Evaluation.load(tmp_path / "x.json")
    (tmp_path / "y.json").write_text('{"lab')
    with pytest.raises(EvaluationError, match=r"Cannot read the evaluation.*y\.json"):
        Evaluation.load(tmp_path / "y.json")


def test_every_kind_of_mistake_is_counted_where_it_happened():
    def turn(index: int, status: ResultStatus, error: str | None = None) -> Turn:
        call = Call("add", error=error)
        return Turn(index, Message("assistant", "", (call,)), (call,), (Result("?", status),))

    statuses = [s for s in ResultStatus if s is not ResultStatus.OK]
    turns = [turn(i, s, "broken" if s is ResultStatus.MALFORMED else None) for i, s in enumerate(statuses)]
    spoke = Turn(len(turns), Message("assistant", "I think it is 3."))
    empty = Turn(len(turns) + 1, Message("assistant", ""))
    ended = Trajectory("r/t#0", TASKS[0], turns=[*turns, spoke, empty], stop_reason=StopReason.MAX_TURNS)
    ended.outcome = {"success": 0.0}
    assert count_failures(ended) == {
        "tool_error": 1,
        "malformed": 1,
        "unknown_tool": 1,
        "wrong_arguments": 1,
        "timeout": 1,
        "over_budget": 1,
        "void": 2,
        "no_answer": 1,
    }
    ended.stop_reason = StopReason.INFRA_ERROR
    assert count_failures(ended) == {"failed": 1}


async def test_a_tool_that_refuses_counts_against_the_agent_and_not_the_machine():
    class Strict(Counter):
        def __init__(self):
            super().__init__()

        from agentgym import tool

        @tool(inline=True)
        def add(self, amount: int = 1) -> str:
            """Refuse to add."""
            raise ToolError("no")

    got = await play(perfect, environment=Strict, limit=2)
    assert got.failed == 0
    assert got.failures()["tool_error"] == 2
    assert got.execution_rate() == 0.5


async def test_a_task_whose_prompt_fills_the_context_scores_0_and_is_counted():
    """Half of the tasks do not fit. All four that do are solved: 4 of 8, and not 4 of 4."""

    class Small(ScriptedPolicy):
        async def generate(self, request):
            raise ContextFull("9000 tokens do not fit 8192")

    got = await play(lambda task: perfect(task) if "even" in task.tags else Small([]))
    assert (got.success().value, got.success().n, got.failed) == (0.5, 8, 0)
    assert got.causes() == {}
    assert got.cuts() == {"context": 4}
    assert "cut off: 4 of 8 episodes by the context of the model" in render(evaluation_table(got))


async def test_what_cut_episodes_and_messages_is_named_with_its_option():
    class Cut(Policy):
        async def generate(self, request):
            reason = ("length", "content_filter")[request.turn % 2]
            return Reply(Message("assistant", "I think" if request.turn % 2 else ""), finish_reason=reason)

    got = await play(lambda task: perfect(task) if "even" in task.tags else Cut(), budgets=Budgets(max_turns=2))
    assert got.failures() == {"cut": 4, "filtered": 4, "no_answer": 4}
    assert got.cuts() == {"max_turns": 4, "max_turn_tokens": 4, "filter": 4}
    text = render(evaluation_table(got))
    assert (
        "cut off: 4 of 8 episodes by --max-turns; 4 messages by --max-turn-tokens; 4 messages by the content filter of "
        "the model's server"
    ) in text
    assert "neither spoke" not in text
    assert "cut off: 4 episodes by max_turns; 4 messages by max_turn_tokens" in format_evaluation(got)
    got.rows = [row for row in got.rows if "even" in row.tags]
    assert got.cuts() == {}
    assert "cut off" not in render(evaluation_table(got)) + format_evaluation(got)


async def test_an_evaluation_in_which_nothing_was_judged_is_no_use_of_held_out_tasks(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_STATE_DIR", str(tmp_path))

    class Down(Policy):
        async def generate(self, request):
            raise PolicyError("the server is down")

    await play(Down(), label="first")
    assert (await play(perfect, label="second")).held_out_uses == 0
    assert (await play(perfect, label="third")).held_out_uses == 1


def render(table) -> str:
    console = Console(file=io.StringIO(), soft_wrap=True, width=200)
    console.print(table)
    return console.file.getvalue()


class Metered(Policy):
    """Submits at once, and reports 1,000 tokens read and 100 written."""

    async def generate(self, request):
        return Reply(Message("assistant", "", (Call("submit"),)), prompt_tokens=1000, completion_tokens=100)


async def test_the_price_of_tokens_is_recorded_and_a_limit_stops_the_evaluation_which_goes_on(tmp_path):
    """An episode costs 1000 * 2 / 1e6 + 100 * 5 / 1e6 = 0.0025."""
    price, ledger = Price.parse("2,5"), Ledger(tmp_path / "ledger.sqlite")
    with pytest.raises(EvaluationError, match=r"after 4 of 8 episodes: they cost 0\.01, more than --max-cost 0\.009"):
        await play(Metered(), concurrency=1, ledger=ledger, price=price, max_cost=0.009)
    assert len(ledger.finished("evaluation/held_out")) >= 4
    got = await play(Metered(), concurrency=1, ledger=ledger, price=price, max_cost=0.02)
    assert got.usage()["price"] == pytest.approx(8 * 0.0025)
    seen = []
    few = await play(Metered(), concurrency=1, price=price, limit=4, label="few", progress=seen.append)
    assert [state.spent for state in seen] == pytest.approx([0.0025, 0.005, 0.0075, 0.01])
    assert format_projection(few, 8).endswith("price 0.02 (0.02 to 0.02)")
    assert "all 8 tasks of the split would take about 8,000 prompt tokens (8,000 to 8,000)" in format_projection(few, 8)
    assert format_projection(got, 8) == ""
    assert "price 0.02" in format_evaluation(got) + "".join(format_usage(got.usage()))
    ledger.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_cost": 1.0}, "--max-cost needs --price IN,OUT"),
        ({"max_cost": 0.0, "price": Price(1, 1)}, "--max-cost 0 is not valid: give a number above 0"),
        ({"max_cost": 1.0, "price": Price(1, 1)}, "because it does not report how many tokens it"),
    ],
)
async def test_a_limit_that_cannot_be_kept_is_refused(options, message):
    with pytest.raises(EvaluationError, match=message):
        await play(perfect, **options)


@pytest.mark.parametrize("text", ["2", "2,", "a,b", "1,2,3", "-1,2", "inf,1"])
def test_a_price_is_two_numbers(text):
    with pytest.raises(EvaluationError, match="two numbers"):
        Price.parse(text)
