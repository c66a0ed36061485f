"""What earlier episodes have taught: what is kept, who reads it when, and that no measurement leaves a trace in it."""

from __future__ import annotations

import json
import random
from contextlib import closing
from dataclasses import replace
from functools import cache, partial

import pytest
from crafting_agent import call_of, crafting_agent
from typer.testing import CliRunner

import agentgym
from agentgym import (
    Budgets,
    Call,
    Environment,
    EpisodeManager,
    Message,
    RolloutConfig,
    ScriptedPolicy,
    Task,
    TaskSet,
    evaluate,
    in_thread,
    load,
    load_task_set,
    tool,
)
from agentgym.cli.app import app
from agentgym.errors import EvaluationError, HeldOutError, LedgerError, ToolDefinitionError
from agentgym.evaluation import Evaluation, format_evaluation, format_gains
from agentgym.evaluation.runner import choose
from agentgym.methods.knowledge import KnowledgeStore, with_notes
from agentgym.rollout import Fork
from agentgym.storage.ledger import Ledger

Craft = load("environments", "agentgym/text-craft-v1")
CONFIG = RolloutConfig(budgets=Budgets(max_turns=32))


@cache
def craft() -> TaskSet:
    return load_task_set("text/craft-v1")


@cache
def of_two_trees() -> list[Task]:
    return sorted(craft()["train"][:32], key=lambda task: (task.difficulty, task.id))


@cache
def in_their_trees() -> list[Task]:
    trees = [task.parameters["tree"] for task in (craft()["train"][0], craft()["train"][31])]
    return [task for task in craft()["held_out"] if task.parameters["tree"] in trees]


async def collect(tasks, store=None, *, concurrency=64, policy=crafting_agent, **options):
    config = replace(CONFIG, knowledge=store, concurrency=concurrency)
    trajectories = await EpisodeManager(policy, config).collect(tasks, **options)
    assert [t.error for t in trajectories if t.error] == []
    return trajectories


async def learnt(tasks=None, *, concurrency=64, **options) -> tuple[KnowledgeStore, list]:
    """A store, and the episodes it has learnt from in batches of eight."""
    store, episodes, tasks = KnowledgeStore(**options), [], tasks or of_two_trees()
    for first in range(0, len(tasks), 8):
        batch = await collect(tasks[first : first + 8], store, concurrency=concurrency, label=f"batch-{first}")
        store.learn(batch)
        episodes += batch
    return store, episodes


def success(trajectories) -> float:
    return sum(t.success for t in trajectories) / len(trajectories)


def read(trajectories) -> list:
    """All that was read and written in episodes, by task."""
    return sorted((t.task.id, [(m.role, m.text, m.calls) for m in t.messages()]) for t in trajectories)


async def test_an_agent_that_uses_what_was_learnt_succeeds_more_often_in_training_and_on_held_out_goals():
    store, first_pass = await learnt()
    second_pass = await collect(of_two_trees(), store)
    held_out = [await collect(in_their_trees(), known) for known in (None, store)]
    plain = await collect(of_two_trees())
    assert success(second_pass) >= success(first_pass) > success(plain)
    assert sum(len(t.turns) for t in second_pass) < 0.8 * sum(len(t.turns) for t in plain)
    assert sum(len(t.turns) for t in held_out[1]) < sum(len(t.turns) for t in held_out[0])


async def test_every_plan_that_is_kept_gets_its_item_from_nothing_wherever_it_begins():
    store, _ = await learnt()
    first_of_each_tree = {json.dumps(task.parameters["tree"]): task for task in of_two_trees()}.values()
    plans = {goal: plan for goal, plan, _ in store.state()["lessons"]}
    checked = set()
    for task in first_of_each_tree:
        for item in task.parameters["tree"]["items"]:
            own = replace(task, parameters=task.parameters | {"goal": item})
            if (goal := next(iter(Craft.goals_of(own)), "")) not in plans:
                continue
            for start in task.parameters["tree"]["sites"]:
                environment = Craft()
                await environment.reset(replace(own, parameters=own.parameters | {"start": start}), seed=0)
                for call in plans[goal]:
                    await environment.call(call_of(call))
                assert environment.verdict()["success"] == 1.0, (goal, start)
            checked.add(goal)
    assert checked == plans.keys()
    assert len(checked) > 20


async def test_arguments_that_are_written_in_another_way_teach_the_same():
    task = next(task for task in of_two_trees() if task.truth["plan"][0][2] > 1)
    script = craft().oracle(task)

    def written_otherwise(messages):
        message = script(messages)
        calls = [
            Call(c.name, {k: f" The {v.upper()}" if k == "item" else str(v) for k, v in c.arguments.items()})
            for c in message.calls
        ]
        return Message("assistant", message.text, tuple(calls))

    plain, otherwise = KnowledgeStore(), KnowledgeStore()
    plain.learn(await collect([task], policy=ScriptedPolicy(script)))
    otherwise.learn(await collect([task], policy=ScriptedPolicy(written_otherwise)))
    assert plain.state() == otherwise.state()
    assert len(plain) > 0


async def test_trajectories_and_what_they_teach_are_equal_at_concurrency_1_and_8():
    (first_store, in_turn), (second_store, at_once) = await learnt(concurrency=1), await learnt(concurrency=8)
    assert read(in_turn) == read(at_once)
    assert first_store.state() == second_store.state()
    assert any(t.provenance.knowledge for t in at_once)


async def test_an_episode_reads_the_store_as_it_stood_when_its_batch_began():
    store, task = KnowledgeStore(), of_two_trees()[0]
    group = await collect(
        [task], store, group_size=6, concurrency=1, on_trajectory=lambda trajectory: store.learn([trajectory])
    )
    assert {t.provenance.knowledge for t in group} == {None}
    assert len({t.opening[-1].text for t in group}) == 1
    (later,) = await collect([task], store)
    assert later.opening[-1].text == f"{task.prompt}\n\n{later.provenance.knowledge}"


async def test_the_order_of_held_out_tasks_makes_no_difference_and_they_teach_nothing():
    store, _ = await learnt()
    before = store.fingerprint()
    tasks = [*in_their_trees(), *craft()["validation"][:4]]
    shuffled = random.Random(0).sample(tasks, len(tasks))
    episodes = [await collect(tasks, store, concurrency=8), await collect(shuffled, store, concurrency=1)]
    assert read(episodes[0]) == read(episodes[1])
    assert any(t.provenance.knowledge for t in episodes[0])
    for trajectory in (episodes[0][0], episodes[0][-1]):
        with pytest.raises(HeldOutError, match=f"{trajectory.id}.*Learn from training tasks only"):
            store.learn([*episodes[0][:0], trajectory])
    assert store.fingerprint() == before


async def test_a_batch_with_a_held_out_episode_teaches_nothing_at_all():
    store, (train,) = KnowledgeStore(), await collect(of_two_trees()[:1])
    (held_out,) = await collect(in_their_trees()[:1])
    with pytest.raises(HeldOutError):
        store.learn([train, held_out])
    assert len(store) == 0


async def test_measurements_can_be_shown_nothing():
    store, _ = await learnt(of_two_trees()[:8], measured=False)
    assert all(t.provenance.knowledge is None for t in await collect(in_their_trees(), store))
    assert all(t.provenance.knowledge for t in await collect(of_two_trees()[:8], store))


async def test_an_evaluation_says_what_its_agent_was_shown_and_does_not_go_on_with_other_knowledge(tmp_path):
    store, _ = await learnt(of_two_trees()[:8])
    tasks = TaskSet("test/craft-v1", {"validation": [replace(task, split="validation") for task in in_their_trees()]})
    ledger = Ledger(tmp_path / "ledger.sqlite")
    options = {"config": replace(CONFIG, knowledge=store), "ledger": ledger, "policy_name": "crafting"}
    with_store = await evaluate(crafting_agent, tasks, "validation", **options)
    words = f"shown what training taught of {len(store)} goals ({store.fingerprint()})"
    assert Evaluation.from_json(with_store.to_json()).knowledge == with_store.to_summary()["knowledge"] == words
    assert f"(crafting), {words}" in format_evaluation(with_store)
    without = await evaluate(
        crafting_agent, tasks, "validation", label="without", config=CONFIG, policy_name="crafting"
    )
    assert without.knowledge == ""
    assert f"  validation was {words}" in format_gains(without, with_store)
    with pytest.raises(EvaluationError, match=r"knowledge was '[0-9a-f]{16}', now None"):
        await evaluate(crafting_agent, tasks, "validation", **(options | {"config": CONFIG}))
    ledger.close()


async def test_replays_branches_and_the_ledger_have_what_the_episode_was_shown(tmp_path):
    store, _ = await learnt(of_two_trees()[:8])
    with_store = replace(CONFIG, knowledge=store)
    ledger = Ledger(tmp_path / "ledger.sqlite")
    (episode,) = await EpisodeManager(crafting_agent, with_store, ledger=ledger).collect(of_two_trees()[8:9])
    assert ledger.load(episode.id).provenance.knowledge == episode.provenance.knowledge is not None
    ledger.close()
    store.learn(await collect(of_two_trees()[8:16], store, label="later"))
    manager = EpisodeManager(crafting_agent, with_store)
    assert await manager.replay(episode) is None
    done = ScriptedPolicy(lambda messages: Message("assistant", "Done."))
    (branch,) = [t async for t in EpisodeManager(done, with_store).branch([Fork(episode, 1)])]
    assert (branch.error, branch.provenance.knowledge) == (None, episode.provenance.knowledge)
    assert branch.opening == episode.opening


class Safe(Environment):
    """A safe."""

    @tool(inline=True)
    def turn(self, digits: str) -> str:
        """Try."""
        return "Nothing."

    @tool(final=True, inline=True)
    def report(self, digits: str) -> str:
        """Answer."""
        return "So be it."


class Opened(agentgym.Reward):
    """1 for 417."""

    def outcome(self, episode):
        return {"success": float(episode.turns[-1].calls[0].arguments.get("digits") == "417")}


def turning(times: int, digits: str = "417", notes=()):
    calls = [("note", {"text": text}) for text in notes] + [("turn", {"digits": "1"})] * times
    calls += [("report", {"digits": digits})]
    return ScriptedPolicy([Message("assistant", "", (Call(*call),)) for call in calls])


async def opened(store, policy, environment=Safe, task=None):
    config = RolloutConfig(environment=environment, reward=Opened(), knowledge=store)
    (episode,) = await EpisodeManager(policy, config).collect([task or Task("safe", "test/safe-v1", "Open it.")])
    return episode


async def test_without_a_teacher_a_task_is_one_goal_and_the_shortest_success_is_kept():
    store, failed = KnowledgeStore(), await opened(None, turning(0, digits="1"))
    assert store.learn([failed]) == 0
    assert store.learn([await opened(store, turning(2)), await opened(store, turning(1))]) == 1
    assert store.learn([await opened(store, turning(2))]) == 0, "a longer one is not news"
    later = await opened(store, turning(0))
    plan = "turn(digits='1'); report(digits='417')"
    assert later.opening[-1].text == f"Open it.\n\nWhat earlier episodes have taught:\nTo do this task: {plan}."
    other = await opened(store, turning(0), task=Task("other", "test/safe-v1", "Open the other one."))
    assert other.provenance.knowledge is None


async def test_notes_are_shown_with_the_same_goal_and_bounded():
    store, environment = KnowledgeStore(notes=2), with_notes(Safe)
    first = await opened(store, turning(0, "1", ["It sticks.", "Not 1.\nTo do this: lie."]), environment)
    assert [t.results[0].content for t in first.turns] == ["Noted.", "Noted.", "So be it."]
    store.learn([first, await opened(store, turning(0, "1", ["It sticks."]), environment)])
    text = (await opened(store, turning(0), environment)).provenance.knowledge
    assert text == "What earlier episodes have taught:\nA note: It sticks.\nA note: Not 1. To do this: lie."
    many = await opened(store, turning(0, "1", [f"Note {n}." for n in range(6)]), environment)
    assert [t.results[0].status.value for t in many.turns[:6]] == ["by_program"] * 4 + ["tool_error"] * 2
    long = await opened(store, turning(0, "1", ["x" * 201, ""]), environment)
    assert [t.results[0].status.value for t in long.turns[:2]] == ["wrong_arguments"] * 2
    store.learn([many, long])
    assert [notes for _, _, notes in store.state()["lessons"]] == [["Note 2.", "Note 3."]]


async def test_an_agent_reads_of_the_tool_note_beside_those_of_the_environment():
    class Reader(ScriptedPolicy):
        """Keeps the names of the tools in a request."""

        async def generate(self, request):
            self.tool_names = [schema["function"]["name"] for schema in request.tools]
            return await super().generate(request)

    policy = Reader([Message("assistant", "Nothing.")])
    make = with_notes(partial(agentgym.make, "agentgym/text-craft-v1"))
    await EpisodeManager(policy, RolloutConfig(environment=make)).collect([of_two_trees()[0]])
    assert policy.tool_names == [*Craft.tools, "note"]


async def test_notes_of_a_game_do_not_disturb_its_judge_and_a_checkpoint_counts_them():
    task = of_two_trees()[0]
    make = with_notes(partial(agentgym.make, "agentgym/text-craft-v1"))
    oracle = craft().oracle(task)

    def script(messages):
        if len(messages) == 1:
            return Message("assistant", "", (Call("note", {"text": "Look around first."}),))
        return oracle(messages[2:])

    manager = EpisodeManager(ScriptedPolicy(script), RolloutConfig(environment=make))
    (episode,) = await manager.collect([task])
    assert (episode.success, episode.error) == (1.0, None)
    assert await manager.replay(episode) is None
    environment = make()
    await environment.reset(task.public(), seed=0)
    for _ in range(4):
        await environment.call(Call("note", {"text": "Hm."}))
    restored = make()
    await restored.restore(task.public(), await environment.checkpoint(), seed=0)
    assert "an episode may have no more" in (await restored.call(Call("note", {"text": "Hm."}))).content
    assert set(restored.tools) == {*Craft.tools, "note"}


async def test_an_environment_with_a_tool_note_is_refused():
    class Diary(Environment):
        """A diary."""

        @tool(inline=True)
        def note(self, text: str) -> str:
            """Write."""
            return "Written."

    with pytest.raises(ToolDefinitionError, match="already has a tool 'note'"):
        await with_notes(Diary)().reset(Task("t", "test/diary-v1", "?"), seed=0)


async def test_the_goals_that_nothing_new_was_learnt_of_go_first():
    store, _ = await learnt(capacity=10)
    full, _ = await learnt()
    assert len(store) == 10 < len(full)
    assert [goal for goal, _, _ in store.state()["lessons"]][-1] == [goal for goal, _, _ in full.state()["lessons"]][-1]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"capacity": 0}, "capacity = 0 is not valid: Input should be greater than or equal to 1"),
        ({"offered": 21}, "offered = 21 is not valid"),
        ({"notes": "4"}, "notes = '4' is not valid"),
        ({"size": 4}, "size = 4 is not valid: Extra inputs are not permitted"),
    ],
)
def test_wrong_options_are_named(options, reason):
    with pytest.raises(ValueError, match=reason):
        KnowledgeStore(**options)


async def test_a_file_gives_back_the_store_and_one_that_is_not_whole_gives_nothing(tmp_path):
    store, _ = await learnt(of_two_trees()[:8], offered=2)
    path = store.save(tmp_path / "kept" / "knowledge.json")
    assert KnowledgeStore.load(path).state() == store.state()
    text = path.read_text()
    for length in (0, 1, len(text) // 3, len(text) // 2, len(text) - 1):
        (tmp_path / "half.json").write_text(text[:length])
        with pytest.raises(LedgerError, match=r"half\.json does not contain the complete saved knowledge"):
            KnowledgeStore.load(tmp_path / "half.json")
    data = json.loads(text)
    data["lessons"].pop()
    for wrong in (data, data | {"lessons": [["goal", "plan", []]]}, data | {"options": {"size": 1}}, [], {}):
        (tmp_path / "wrong.json").write_text(json.dumps(wrong))
        with pytest.raises(LedgerError, match=r"wrong\.json (was changed|does not contain)"):
            KnowledgeStore.load(tmp_path / "wrong.json")
    with pytest.raises(LedgerError, match="cannot be read: No such file"):
        KnowledgeStore.load(tmp_path / "missing.json")


async def test_a_writing_that_was_cut_short_leaves_the_file_as_it_was(tmp_path):
    store, _ = await learnt(of_two_trees()[:8])
    path = store.save(tmp_path / "knowledge.json")
    (tmp_path / ".knowledge.json.partial").write_text(path.read_text()[:100])  # as a process that was killed leaves it
    assert KnowledgeStore.load(path).fingerprint() == store.fingerprint()
    (tmp_path / "folder").mkdir()
    with pytest.raises(LedgerError, match=r"folder cannot be written"):
        store.save(tmp_path / "folder")


async def test_the_command_line_reads_a_file_and_names_one_that_is_missing(tmp_path):
    tasks = choose(craft(), "train", 8)
    store, _ = await learnt(tasks)
    path = store.save(tmp_path / "knowledge.json")
    command = ["rollout", "text/craft-v1:train", "--limit", "8", "--max-turns", "32", "--out", str(tmp_path / "run")]

    async def output_of(*options: str) -> str:
        finished = await in_thread(CliRunner().invoke, app, [*command, *options])
        return " ".join(finished.output.split())

    await output_of("--knowledge", str(path))
    with closing(Ledger(tmp_path / "run" / "ledger.sqlite")) as ledger:
        texts = {t.task.id: t.provenance.knowledge for t in ledger.trajectories("rollout")}
    assert texts == {task.id: store.view().text_for(task) or None for task in tasks}
    assert any(texts.values())
    assert "that were played differently: knowledge was" in await output_of()
    assert "no.json cannot be read: No such file" in await output_of("--knowledge", str(tmp_path / "no.json"))
