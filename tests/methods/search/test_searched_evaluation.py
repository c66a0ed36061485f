"""A search in an evaluation: recorded with what it took, and never with the help of the verifier unsaid."""

from __future__ import annotations

import pytest
from wanderers import Wanderer, rooms

from agentgym import Budgets, RolloutConfig, TaskSet, compare
from agentgym.errors import EvaluationError, RecipeError
from agentgym.evaluation.record import Evaluation
from agentgym.evaluation.runner import evaluate
from agentgym.evaluation.text import format_evaluation, format_usage
from agentgym.methods.search import BestFirst, make_search
from agentgym.training import Recipe

CONFIG = RolloutConfig(budgets=Budgets(max_turns=24))
TASKS = TaskSet("test/rooms-v1", {"validation": rooms(6)})
SEARCH = BestFirst(nodes=300, candidates=8)


async def test_the_cost_stands_beside_the_success_and_the_plain_policy_is_compared_task_by_task():
    plain = await evaluate(Wanderer(), TASKS, "validation", config=CONFIG)
    searched = await evaluate(Wanderer(), TASKS, "validation", config=CONFIG, search=SEARCH)
    assert plain.success().value == 0
    gain = compare(plain, searched)
    assert gain.difference.value > 0.7
    usage = searched.usage()
    assert 0 < usage["search_nodes"] <= 300 * 6
    assert usage["search_calls"] == usage["search_nodes"]
    assert usage["search_tokens"] == 3 * usage["search_calls"]
    assert any("nodes of search trees" in phrase for phrase in format_usage(usage))
    assert "searched by BestFirst with 300 nodes, value potential" in format_evaluation(searched)
    assert Evaluation.from_json(searched.to_json()) == searched
    assert not plain.search


@pytest.mark.parametrize("value", ["rollouts(count=2)", "reward(name='final_state')"])
async def test_a_value_that_reads_the_outcome_is_refused_unless_the_record_calls_it_an_oracle(value):
    search = BestFirst(nodes=24, candidates=4, value=value)
    with pytest.raises(EvaluationError, match="which reads the very outcome that the evaluation measures"):
        await evaluate(Wanderer(), TASKS, "validation", config=CONFIG, search=search, limit=1)
    named = BestFirst(nodes=24, candidates=4, value=value, oracle=True)
    evaluation = await evaluate(Wanderer(), TASKS, "validation", config=CONFIG, search=named, limit=1)
    assert evaluation.search["oracle_value"] is True
    assert "an oracle value" in format_evaluation(evaluation)


async def test_rollouts_are_played_to_the_end_and_counted():
    search = BestFirst(nodes=8, candidates=4, value="rollouts(count=2)", oracle=True)
    evaluation = await evaluate(Wanderer(), TASKS, "validation", config=CONFIG, search=search, limit=1)
    usage = evaluation.usage()
    assert usage["search_rollouts"] == 2 * 8
    assert usage["search_calls"] > usage["search_nodes"] + usage["search_rollouts"]


def test_a_recipe_with_a_wrong_search_or_an_oracle_that_is_not_called_one_is_refused():
    recipe = {"name": "x", "tasks": {"set": "text/sokoban-v1"}, "policy": {"path": "model"}}
    for text, message in (
        ("best_first(nods=3)", "Did you mean 'nodes'"),
        ("mcts(value='rollouts')", "or set oracle=True"),
    ):
        with pytest.raises(RecipeError) as raised:
            Recipe.parse(recipe | {"evaluate": {"search": text}})
        assert message in str(raised.value)
    assert Recipe.parse(recipe | {"evaluate": {"search": "mcts(value='rollouts', oracle=True)"}}).evaluate.search
    assert make_search("beam(width=2)").describe()["width"] == 2
