"""Label-free adaptation: what the policy is trained on and judged by, and that every later figure says so."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from lookup_environment import PRESS
from lookup_runs import recipe
from staged_runs import pressing, run
from typer.testing import CliRunner

from agentgym import TaskSet
from agentgym.cli.app import app
from agentgym.deprecation import AgentGymDeprecationWarning
from agentgym.errors import RecipeError, SplitLeakError
from agentgym.evaluation.held_out_uses import held_out_uses
from agentgym.evaluation.record import Evaluation, manifest_of
from agentgym.evaluation.text import format_evaluation, format_gains
from agentgym.methods.adapt import Adapt
from agentgym.registry import load_task_set
from agentgym.storage.adaptations import adaptations_of, joined, note_adaptations
from agentgym.storage.ledger import Ledger
from agentgym.storage.run_folder import RunFolder
from agentgym.training import Recipe
from agentgym.training.checks.preflight import check_before_start
from agentgym.training.fit import TrainingPlan, check_parts

ADAPT = {"split": "held_out", "reward": "majority_vote(argument='side')"}
IMITATION = {"steps": 150, "learning_rate": 3e-3, "imperfect_oracle": 0.8}
MEASURE = {"kind": "evaluate"}
PLAY = {
    "steps": 2,
    "tasks_per_step": 8,
    "group_size": 5,
    "estimator": "grpo",
    "parts": {"adapt": ADAPT},
    "validate_every": 1,
}


@pytest.fixture(scope="module")
def adapted(tmp_path_factory) -> tuple[Path, Path]:
    """A run that is measured, adapted to the held-out tasks, and measured again; and where uses of these are noted."""
    folder, state = tmp_path_factory.mktemp("adapting") / "run", tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENTGYM_STATE_DIR", str(state))
        stages = [
            {"kind": "imitate", "name": "start", "options": IMITATION},
            MEASURE | {"name": "before"},
            {"kind": "reinforce", "options": PLAY},
            MEASURE | {"name": "after"},
        ]
        run(pressing(*stages), folder)
        uses = held_out_uses(PRESS, load_task_set(PRESS).fingerprint())
    assert [use.label.rpartition("/")[2] for use in uses] == ["before", "adapt", "after"]
    return folder, state


def measured(folder: Path, name: str) -> Evaluation:
    return Evaluation.load(folder / "evaluation" / f"{name}.json")


def pressed(episode) -> str | None:
    """The button, if one was pressed."""
    calls = [c for turn in episode.turns for c, result in zip(turn.calls, turn.results, strict=True) if result.final]
    return calls[0].arguments["side"] if calls else None


def test_episodes_have_no_truth_and_are_judged_by_the_majority_of_their_group(adapted):
    ledger = Ledger(adapted[0] / "ledger.sqlite")
    groups: dict[str, list] = {}
    for episode in ledger.trajectories("train-"):
        groups.setdefault(episode.id.rpartition("#")[0], []).append(episode)
    ledger.close()
    assert len(groups) == 16
    lost = 0
    for group in groups.values():
        sides = [pressed(episode) for episode in group]
        votes = Counter(side for side in sides if side)
        if votes.total() < 2:
            continue
        majority = votes.most_common(1)[0][0]
        lost += majority == "left"
        for episode, side in zip(group, sides, strict=True):
            assert episode.outcome == {"vote": float(side == majority), "agreement": votes[majority] / 5}
            assert (episode.task.truth, episode.task.split, episode.task.origin.generator) == (None, "train", "adapt")
            assert episode.task.id == f"adapt/{episode.task.origin.parent}"
    assert lost, "no group voted for the wrong button, so the truth might have judged"


def test_validations_and_evaluations_know_the_truth(adapted):
    folder = RunFolder(adapted[0])
    assert [row["step"] for row in folder.metrics("train_validation")] == [1, 2]
    assert all(0 <= row["success"] <= 1 and "outcome/vote" not in row for row in folder.metrics("train_validation"))
    assert all("success" not in row and "outcome/vote" in row for row in folder.metrics("train"))
    assert all(0 <= measured(folder.path, name).success().value <= 1 for name in ("before", "after"))


def test_every_later_figure_says_that_the_agent_was_adapted_and_to_what(adapted):
    folder = adapted[0]
    start, end = measured(folder, "before"), measured(folder, "after")
    manifest = manifest_of(load_task_set(PRESS)["held_out"])
    words = f"adapted to 16 held_out tasks (manifest {manifest}) without their truth, by {ADAPT['reward']}"
    assert (start.adapted, end.adapted) == ("", words)
    assert (start.held_out_uses, end.held_out_uses) == (0, 2), "the adaptation is a use of them"
    assert words in format_evaluation(end)
    assert f"after was {words}" in format_gains(start, end)
    assert words not in format_evaluation(start)
    assert end.to_summary()["adapted"] == words
    page = (folder / "report.html").read_text()
    assert "Label-free adaptation: the agent that was measured last was adapted to 16 held_out tasks" in page
    assert Evaluation.from_json(end.to_json()) == end


def test_the_mark_travels_with_the_weights_into_other_evaluations_and_runs(adapted, tmp_path):
    folder, words = adapted[0], measured(adapted[0], "after").adapted
    last_step = folder / "stages" / "train" / "checkpoints" / "checkpoint-2"
    assert [adaptations_of(path) for path in (folder, last_step, None, "no/such/model")] == [words, words, "", ""]
    run(pressing({"kind": "imitate", "options": {"steps": 1}}, MEASURE, start=str(folder)), tmp_path / "next")
    assert measured(tmp_path / "next", "evaluate").adapted == words
    assert adaptations_of(tmp_path / "next") == words
    arguments = ["eval", f"{PRESS}:held_out", "--policy", str(folder), "--limit", "1", "--out", str(tmp_path / "eval")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert measured(tmp_path / "eval", "held_out").adapted == words
    assert "the agent was adapted to 16 held_out tasks" in " ".join(result.output.split())
    note_adaptations(tmp_path, "")
    assert not (tmp_path / "adapted.json").exists()
    assert joined("a; b", "", "b", "c") == "a; b; c"


def test_unlabelled_tasks_are_only_trained_on_and_nothing_else_is_changed():
    task_set = load_task_set("test/lookup-v1")
    unlabelled = Adapt(split="held_out").training_tasks(task_set)
    assert [task.parameters for task in unlabelled["train"]] == [task.parameters for task in task_set["held_out"]]
    assert not any(task.truth or task.hints for task in unlabelled["train"])
    assert list(unlabelled["validation"]) == list(task_set["validation"])
    assert (len(unlabelled["held_out"]), unlabelled.oracle, unlabelled.answer) == (0, None, None)
    with pytest.raises(SplitLeakError, match=r"a training made it \(by 'adapt', from 'held_out-0'\)"):
        TaskSet("test/leak-v1", {"held_out": [replace(unlabelled["train"][0], split="held_out")]})


@pytest.mark.parametrize(
    ("train", "message"),
    [
        ({"parts": {"adapt": {"reward": "test_lookup"}}}, "'test_lookup' names a reward that judges each episode"),
        ({"parts": {"adapt": {"reward": "by_task"}}}, "'by_task' names a reward that judges each episode"),
        ({"parts": {"adapt": {"reward": "majority_vot"}}}, "Did you mean 'majority_vote'"),
        ({"parts": {"adapt": {"reward": "majority_vote(compare='sounds')"}}}, "compare = 'sounds'"),
        (
            {"parts": {"adapt": {"split": "validation"}}},
            "'split' of 'adapt' is 'validation'",
        ),
        ({"parts": {"adapt": {}}, "gather": ["success_replay"]}, "MajorityVote judges whole groups"),
        ({"parts": {"adapt": {}}, "gather": ["variants"]}, "no training task of test/lookup-v1 has both words"),
        (
            {"parts": {"adapt": {}}, "staleness": 1},
            r"\[train.parts.adapt\] lets another reward judge than validations do",
        ),
        ({"parts": {"adapt": {}}, "objective": "grao", "experts": {}}, "test/lookup-v1 has no oracle"),
    ],
)
def test_what_an_adaptation_cannot_do_is_refused_before_a_run(train, message):
    data = recipe().model_dump(exclude_none=True)
    data["train"] |= train
    with pytest.raises(RecipeError, match=message):
        check_before_start(chosen := Recipe.parse(data), chosen.tasks.load())


def test_a_split_without_tasks_cannot_be_adapted_to():
    with pytest.raises(RecipeError, match="test/none-v1 has no tasks in this split"):
        Adapt(split="held_out").training_tasks(TaskSet("test/none-v1", {}))


def test_another_choice_of_the_tasks_is_refused():
    chosen = recipe(train__parts={"adapt": {}}, train__tasks_of="steps")
    plan = TrainingPlan(chosen.train, chosen.episode, chosen.tasks.load())
    with pytest.raises(RecipeError, match="both choose the tasks to train on"):
        check_parts([Adapt()], plan)


def test_the_section_of_earlier_versions_is_the_part():
    data = recipe().model_dump(exclude_none=True)
    data["train"]["adapt"] = ADAPT
    with pytest.warns(AgentGymDeprecationWarning, match=r"train\.adapt is now train\.parts\.adapt"):
        chosen = Recipe.parse(data)
    assert chosen.train.parts == {"adapt": ADAPT}
