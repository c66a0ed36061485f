"""Choosing one of a task's episodes without its truth: what is chosen, and how well it does."""

from __future__ import annotations

import math
from itertools import combinations, product

import pytest
from typer.testing import CliRunner

from agentgym import Call, Environment, Message, Reward, RolloutConfig, ScriptedPolicy, Task, TaskSet, evaluate, tool
from agentgym.cli.app import app
from agentgym.errors import EvaluationError
from agentgym.evaluation import Evaluation
from agentgym.evaluation.statistics.choosing import choose_curve
from agentgym.evaluation.text import format_choices


class Ask(Environment):
    """A question with a text to look at."""

    @tool
    def look(self, at: str) -> str:
        """Look at something."""
        return at.upper()

    @tool(final=True)
    def answer(self, text: str, sources: list[str] = []) -> str:  # noqa: B006  only read
        """Answer."""
        return "Noted."


class Judged(Reward):
    """Right if the answer is the truth. The guess of a judge comes from the answer's length."""

    def outcome(self, episode):
        text = str(episode.turns[-1].calls[0].arguments["text"]) if episode.turns[-1].calls else ""
        return {"success": float(text.strip() in ("7", "7.0", "seven")), "judge": float(len(text))}


SET = TaskSet("acme/asked-v1", {"held_out": [Task("seven", "acme/ask-v1", "What is 3 + 4?", split="held_out")]})


def says(*answers: tuple[str, str]):
    """A policy that looks at the first of each pair and answers with the second, episode by episode."""
    left = list(answers)

    def make(task: Task) -> ScriptedPolicy:
        seen, text = left.pop(0)
        call = Call("answer", {"text": text, "sources": [f"page {len(left)}"]})
        return ScriptedPolicy(
            [Message("assistant", "", (Call("look", {"at": seen}),)), Message("assistant", "", (call,))]
        )

    return make


async def play(policy, *choose_by, group_size=5):
    config = RolloutConfig(environment=Ask, reward=Judged(), group_size=group_size, concurrency=1)
    return await evaluate(policy, SET, "held_out", config=config, choose_by=choose_by)


async def test_votes_are_of_answers_by_value_and_of_results_and_scores_of_components():
    policy = says(("a", "7"), ("b", " 7.0 "), ("b", "12345678"), ("b", "SEVEN"), ("c", "12345678 "))
    got = await play(policy, "majority", "agreement", "judge")
    assert got.chosen("majority")[5].value == 0.5, "7 and 7.0 are one answer, as often as the long one"
    assert got.chosen("agreement")[5].value == pytest.approx(1 / 3), "of the three episodes that looked at b"
    assert got.chosen("judge")[5].value == 0.0, "the longest answer is wrong"
    assert got.chosen("majority")[1].value == got.success().value == pytest.approx(2 / 5)
    assert Evaluation.from_json(got.to_json()).chosen("majority") == got.chosen("majority")
    assert got.to_summary()["chosen"]["judge"]["5"]["value"] == 0.0
    lines = format_choices(got)
    assert [line.split(":")[0].split()[-1] for line in lines] == ["majority", "agreement", "judge"]


async def test_what_cannot_be_chosen_by_is_one_message():
    with pytest.raises(EvaluationError, match="would choose by the truth"):
        await play(says(("a", "7")), "success")
    with pytest.raises(EvaluationError, match="--group-size 8"):
        await play(says(("a", "7")), "majority", group_size=1)
    with pytest.raises(EvaluationError, match=r"without such a component\. Choose by majority, agreement, judge\."):
        await play(says(*[("a", "7")] * 5), "jugde")


async def test_an_episode_without_the_component_is_not_chosen():
    class JudgedIfRight(Judged):
        def outcome(self, episode):
            judged = super().outcome(episode)
            return judged if judged["success"] else {"success": 0.0}

    config = RolloutConfig(environment=Ask, reward=JudgedIfRight(), group_size=2, concurrency=1)
    got = await evaluate(says(("a", "8"), ("a", "7")), SET, "held_out", config=config, choose_by=["judge"])
    assert got.chosen("judge")[2].value == 1.0


def brute_force(success, keys, k):
    """The mean over all subsets, by what choosing means."""
    values = []
    for subset in combinations(range(len(success)), k):
        own = [keys[i] for i in subset]
        present = [key for key in own if key is not None]
        if not present:
            best = {None}
        elif isinstance(present[0], str):
            most = max(present.count(key) for key in present)
            best = {key for key in present if present.count(key) == most}
        else:
            best = {max(present)}
        means = [[success[i] for i in subset if keys[i] == key] for key in best]
        values.append(sum(sum(each) / len(each) for each in means) / len(means))
    return sum(values) / len(values)


@pytest.mark.parametrize(
    "keys",
    [[*"aabbc"], ["a", None, "b", None, "b"], [0.5, 0.5, 0.1, 0.9, 0.1], [1.0, None, 2.0, None, 2.0], [None] * 5],
)
def test_the_curve_is_the_mean_over_all_subsets(keys):
    for success in list(product((0.0, 1.0), repeat=5))[::5]:
        curve = choose_curve([list(success)], [keys])
        assert list(curve) == [1, 2, 4, 5]
        for k, estimate in curve.items():
            assert estimate.value == pytest.approx(brute_force(success, keys, k)), (success, k)


def test_the_best_of_many_by_a_perfect_score_is_pass_at_k_and_votes_of_many_are_sampled():
    success = [1.0] * 3 + [0.0] * 17
    curve = choose_curve([success], [success], [1, 4, 20])
    assert curve[4].value == pytest.approx(1 - math.comb(17, 4) / math.comb(20, 4))
    votes = ["right" if value else f"wrong {i}" for i, value in enumerate(success)]
    by_votes = choose_curve([success], [votes], [8, 20])
    assert by_votes[20].value == 1.0
    assert by_votes == choose_curve([success], [votes], [8, 20]), "the same every time"


def test_the_command_prints_the_curve_and_refuses_one_episode_a_task():
    words = ["eval", "text/number-guess-v1:validation", "--policy", "oracle", "--limit", "2", "--choose", "majority"]
    refused = CliRunner().invoke(app, words)
    assert refused.exit_code == 2
    assert "--group-size 8" in refused.stderr
    done = CliRunner().invoke(app, [*words, "--group-size", "2"], env={"COLUMNS": "80"})
    assert "chosen by majority: 100 % [" in done.stdout
