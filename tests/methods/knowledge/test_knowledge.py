"""Training steps that are shown what earlier ones have taught: groups that are alike, resumes, and whole runs."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from crafting_agent import crafting_agent
from lookup_environment import PRESS
from staged_runs import killed_run, pressing, run

from agentgym import Budgets, Call, RolloutConfig, Task, TaskSet, load, load_task_set, register
from agentgym.errors import CreditError, LedgerError
from agentgym.methods.knowledge import KnowledgeStore
from agentgym.storage.checkpoints import latest_checkpoint
from agentgym.storage.ledger import Ledger
from agentgym.training import Recipe, Rollouts
from agentgym.training.gatherers import StepRequest, make_gatherer, play_groups


@cache
def tasks() -> list[Task]:
    return sorted(load_task_set("text/craft-v1")["train"][:16], key=lambda task: (task.difficulty, task.id))


@pytest.fixture
def rollouts(tmp_path):
    with Rollouts(RolloutConfig(budgets=Budgets(max_turns=32)), ledger=Ledger(tmp_path / "l.sqlite")) as playing:
        yield playing


def gathered(rollouts, gather, first: int, steps: int) -> list:
    """Steps with four tasks each, beginning with the easiest."""
    return [
        gather(StepRequest(rollouts, crafting_agent, tasks()[4 * number : 4 * number + 4], f"train-{number:06d}", 2))
        for number in range(first, first + steps)
    ]


def knowledge_in(history) -> list[str | None]:
    return [t.provenance.knowledge for groups in history for group in groups for t in group.trained]


def test_the_episodes_of_a_group_are_shown_the_same_and_each_step_more_than_the_one_before(rollouts):
    gather = make_gatherer(play_groups, ["knowledge"])
    sizes = []
    for number in range(4):
        (groups,) = gathered(rollouts, gather, number, 1)
        sizes.append(len(gather.wrappers[-1].store))
        for group in groups:
            assert len({(t.provenance.knowledge, t.opening[-1].text) for t in group.trained}) == 1
            assert len(group.unaided) == 2, "what is remembered is no help"
        assert any(knowledge_in([groups])) == (number > 0)
    assert sizes == sorted(sizes)
    assert sizes[-1] > 8
    assert rollouts.config.knowledge is None, "nobody changes the config of others"


def test_it_goes_on_from_a_checkpoint_as_without(rollouts, tmp_path):
    gather = make_gatherer(play_groups, ["knowledge(offered=2)"])
    gathered(rollouts, gather, 0, 2)
    gather.save(tmp_path)
    resumed = make_gatherer(play_groups, ["knowledge(offered=2)"])
    resumed.restore(tmp_path)
    unbroken = knowledge_in(gathered(rollouts, gather, 2, 2))
    with Rollouts(rollouts.config) as other:
        assert knowledge_in(gathered(other, resumed, 2, 2)) == unbroken
    assert any(unbroken)
    assert resumed.wrappers[-1].store.state() == gather.wrappers[-1].store.state()


def test_episodes_that_others_helped_in_teach_nothing(rollouts):
    gather = make_gatherer(play_groups, ["guide(turns=4)", "knowledge"])
    gather.read_tasks(load_task_set("text/craft-v1"))
    policy = crafting_agent(tasks()[0])
    groups = gather(StepRequest(rollouts, policy, tasks()[:1], "train-000003", 1))
    assert [group.unaided for group in groups] == [[]]
    assert len(gather.wrappers[-1].store) == 0


@pytest.mark.parametrize(
    ("wrappers", "reason"),
    [
        (
            ["knowledge", "refill"],
            "knowledge reads every episode of a step, so it must come last. Write it after refill",
        ),
        (["knowledge(capacity=0)"], "capacity = 0 is not valid: Input should be greater than or equal to 1"),
    ],
)
def test_a_wrong_order_and_wrong_options_are_refused(wrappers, reason):
    with pytest.raises(CreditError, match=reason):
        make_gatherer(play_groups, wrappers)


class TaughtPress(load("environments", PRESS)):
    """Two buttons. Every episode teaches that its task was played, and is shown which were."""

    @staticmethod
    def goals_of(task):
        return {f"train-{number}": f"win train-{number}" for number in range(64)}

    @staticmethod
    def plans_of(trajectory):
        return {trajectory.task.id: [Call("press", {"side": "right"})]}


def taught_set() -> TaskSet:
    plain = load_task_set(PRESS)
    splits = {split: [replace(task, environment=TAUGHT) for task in plain[split]] for split in plain}
    return TaskSet(TAUGHT, splits, oracle=plain.oracle, imperfect_oracle=plain.imperfect_oracle)


TAUGHT = "test/taught-press-v1"
register(TAUGHT, TaughtPress)
register(TAUGHT, taught_set, kind="task_sets")
PLAY = {"steps": 5, "tasks_per_step": 4, "group_size": 2, "estimator": "grpo", "save_every": 1}
STAGES = [
    {"kind": "imitate", "name": "start", "options": {"steps": 15}},
    {"kind": "evaluate", "name": "before"},
    {"kind": "reinforce", "options": PLAY | {"gather": ["knowledge(offered=20)"]}},
    {"kind": "evaluate", "name": "after"},
]
FILE = ("stages", "train", "knowledge.json")


def taught() -> Recipe:
    return Recipe.parse(pressing(*STAGES).model_dump(exclude_none=True) | {"tasks": {"set": TAUGHT}})


def texts_in(folder: Path) -> dict[str, list[str | None]]:
    """By label of a batch what its episodes were shown, in an order."""
    by_label: dict[str, list[str | None]] = {}
    with closing(Ledger(folder / "ledger.sqlite")) as ledger:
        for label in ("held-out-", "train-"):
            for episode in ledger.trajectories(label):
                by_label.setdefault(episode.id.partition("/")[0], []).append(episode.provenance.knowledge)
    return {label: sorted(map(str, texts)) for label, texts in by_label.items()}


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("unbroken") / "run"
    output = run(taught(), folder)
    path = folder.joinpath(*FILE)
    assert f"later stages are shown what is known of 20 goals. Elsewhere, give it by --knowledge {path}" in output
    return folder


def test_a_run_measures_with_what_it_has_learnt_and_keeps_it(unbroken):
    store = KnowledgeStore.load(unbroken.joinpath(*FILE))
    checkpoint = unbroken / "stages" / "train" / "checkpoints" / "checkpoint-5"
    assert json.loads((checkpoint / "gatherers.json").read_text()) == [store.state()]
    texts = texts_in(unbroken)
    assert set(texts["held-out-before"]) == set(texts["train-000000"]) == {"None"}
    for step in range(1, 5):
        (text,) = set(texts[f"train-{step:06d}"])
        assert text.count(": press(side='right').") == 4 * step
    assert set(texts["held-out-after"]) == {store.view().text_for(load_task_set(TAUGHT)["held_out"][0])}


def test_a_run_that_is_killed_goes_on_with_what_it_knew(unbroken, tmp_path):
    folder = tmp_path / "run"
    killed_run(taught(), folder, lambda: latest_checkpoint(folder / "stages" / "train" / "checkpoints") is not None)
    assert not folder.joinpath(*FILE).exists()
    run(taught(), folder, resume=True)
    assert texts_in(folder) == texts_in(unbroken)
    assert KnowledgeStore.load(folder.joinpath(*FILE)).state() == KnowledgeStore.load(unbroken.joinpath(*FILE)).state()


def test_a_later_stage_does_not_begin_with_half_of_what_was_known(unbroken, tmp_path):
    folder = shutil.copytree(unbroken, tmp_path / "run")
    path = folder.joinpath(*FILE)
    path.write_text(path.read_text()[:-20])
    (folder / "evaluation" / "after.json").unlink()
    with pytest.raises(LedgerError, match=r"knowledge\.json does not contain the complete saved knowledge"):
        run(taught(), folder, resume=True)
