"""What an objective or a term needs and a recipe does not give is one line before anything is loaded."""

from __future__ import annotations

from typing import Any

import pytest
from loss_checks import check

from agentgym import TaskSet, register
from agentgym.errors import RecipeError
from agentgym.training import Recipe
from agentgym.training.objectives import LossRequirements, TokenBatch, define_loss


@define_loss(LossRequirements(reference=True, parts=("teacher",), group_outcomes=True))
def demanding(tokens: TokenBatch) -> Any:
    """A loss that needs much."""
    return tokens.per_row(tokens.logps)


register("demanding", demanding, kind="objectives")
FIXED = {"reference": {"kind": "fixed"}}


@pytest.mark.parametrize(
    ("train", "message"),
    [
        ({"objective": "nft", "estimator": "gigpo"}, "'nft' reads outcomes instead of advantages, so .*'gigpo'"),
        ({"objective": "pacs", "estimator_wrappers": ["gated(threshold=1.0)"]}, "would change nothing"),
        (
            {"objective": "ppo", "estimator": "rloo"},
            "advantages of a critic, and the estimator rloo has none",
        ),
        ({"objective": "demanding", "estimator": "tree"}, "compares whole episodes of a group, and those of tree"),
        ({"objective": "pacs", "trl": {"steps_per_generation": 2}}, "steps_per_generation = 2 shares out"),
        ({"objective": "demanding"}, r"needs a reference model.*Set \[train.reference\] kind"),
        ({"objective": "demanding", "kl": 0.1}, r"needs the training part 'teacher'. Name its options"),
        ({"objective": "apo"}, "needs a reference model"),
        (
            {"objective": "apo", "reference": {"kind": "best"}},
            "a reference that stays, not one of the kind 'best'",
        ),
        (
            {"terms": {"entropy_bonus": {"options": {"x": 1.0}}}},
            r"The loss term 'entropy_bonus' has no",
        ),
        ({"terms": {"teacher_kl": {}}}, "train.terms.teacher_kl needs the training part 'teacher'"),
        ({"terms": {"teacher_kl": {}}, "parts": {"teacher": {"path": "./no/such"}}}, "'./no/such' holds no checkpoint"),
        ({"terms": {"reference_kl": {}}}, "train.terms.reference_kl needs a reference model"),
        ({"terms": {"expert_sft": {"weight": 0.3}}}, "train.terms.expert_sft needs episodes of an expert"),
        ({"terms": {"expert_sft": {"weight": 1.5}}, "experts": {}}, "has to stay between 0 and 1.*to 1.5"),
        ({"terms": {"thought_sft": {}}}, r"needs the training part 'corrections'.*\[train.parts.corrections\]"),
        ({"parts": {"corections": {}}}, "Nothing in training_parts is named 'corections'.*Did you mean"),
        ({"terms": {"thought_sft": {}}, "parts": {"corrections": {"polcy": "x"}}}, r"has no option 'polcy'"),
        (
            {"terms": {"thought_sft": {}}, "parts": {"corrections": {"policy": "oracle_of"}}},
            "'oracle_of': Nothing in policies",
        ),
        (
            {"terms": {"thought_sft": {}}, "parts": {"corrections": {"options": {"modell": "x"}}}},
            r"'chat_api' cannot be made with the options \['modell'\]",
        ),
        ({"objective": "grao"}, r"needs episodes of an expert. Add \[train.experts\]"),
        ({"group_size": 1}, "return_to_go compares at least 2 episodes .*group_size = 1 all of them would be 0"),
        ({"group_size": 1, "objective": "nft"}, "compares the episodes of a group, and train.group_size = 1 plays one"),
        ({"group_size": 1, "tasks_per_step": 1}, "a step of one episode"),
        ({"group_size": 1, "gather": ["max_variance"]}, "chooses among the episodes of a group, so it needs"),
        ({"reference": {"kind": "fixed"}}, "nothing reads the reference model"),
        ({"reference": {"kind": "reset"}}, "kind 'reset' needs reset_every above 0"),
        ({"reference": {"kind": "fixed", "reset_every": 3}, "kl": 0.1}, "cannot be combined with reset_every = 3"),
        ({"reference": {"reset_optimiser": True}}, "has an effect only where the reference is reset"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(train, message):
    with pytest.raises(RecipeError, match=message):
        check(train)


@pytest.mark.parametrize(
    "train",
    [
        {"objective": "nft"},
        {"objective": "apo", **FIXED},
        {"objective": "grao", "experts": {}},
        {"objective": "ppo", "estimator": "bilevel_gae"},
        {"objective": "ppo", "group_size": 1},
        {"objective": "apo", "group_size": 1, **FIXED},
        {"objective": "topr", "estimator": "gigpo", "estimator_wrappers": ["gated(threshold=1.0)"]},
        {"kl": 0.1, "reference": {"kind": "moving_average", "reset_every": 1, "mix": 0.05}},
    ],
)
def test_what_fits_passes(train):
    check(train)


def test_ppo_names_its_critic_by_itself():
    recipe = Recipe.parse(
        {"name": "p", "tasks": {"set": "text/countdown-v1"}, "policy": {"tiny": {}}, "train": {"objective": "ppo"}}
    )
    assert recipe.train.estimator == "turn_gae"
    assert Recipe.parse(recipe.model_dump(exclude_none=True)) == recipe


def test_experts_need_a_player_and_one_process():
    train = {"objective": "grao", "experts": {"player": "oracle"}}
    countdown = Recipe.parse({"name": "p", "tasks": {"set": "text/countdown-v1"}, "policy": {"tiny": {}}}).tasks.load()
    without_oracle = TaskSet("mute", dict(countdown))
    with pytest.raises(RecipeError, match=r"needs episodes of an expert\. mute has no oracle"):
        check(train, without_oracle)
    with pytest.raises(RecipeError, match="works in one process, not in 2"):
        check(train, processes=2)


def test_a_reference_that_plays_is_a_whole_model_of_this_process():
    with pytest.raises(RecipeError, match=r"works neither with \[policy.lora\] nor with \[vllm\]"):
        check({"objective": "apo", **FIXED}, policy={"path": "some/model", "lora": {}})
