"""A recipe is checked whole before anything heavy starts, and every complaint names the key."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentgym import Combined, Gate, load_task_set
from agentgym.errors import RecipeError
from agentgym.training import Recipe

ROOT = Path(__file__).parents[2]
GOOD = """
name = "small"
[tasks]
set = "sql/store-v1"
[policy.tiny]
hidden = 64
"""
PRINTED = st.characters(exclude_categories=["Cs"])  # TOML is UTF-8 text: it holds no surrogates


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_text(text)
    return path


def test_a_minimal_recipe_is_complete(tmp_path):
    recipe = Recipe.load(write(tmp_path, GOOD))
    assert recipe.train.estimator == "return_to_go"
    assert recipe.policy.tiny is not None
    assert recipe.policy.tiny.hidden == 64


def test_every_bundled_recipe_loads():
    found = sorted((ROOT / "recipes").glob("*.toml"))
    assert found
    for path in found:
        Recipe.load(path)


def test_the_resolved_recipe_reads_back_equal(tmp_path):
    recipe = Recipe.load(ROOT / "recipes" / "quickstart.toml", ["train.trl.epsilon=0.3", "reward.weights.evidence=0.5"])
    assert Recipe.load(write(tmp_path, recipe.to_toml())) == recipe


@given(
    texts=st.dictionaries(st.text(PRINTED, max_size=8), st.text(PRINTED, max_size=12), max_size=4),
    numbers=st.dictionaries(st.text(PRINTED, max_size=8), st.floats(allow_nan=False, allow_infinity=False), max_size=4),
)
@example(texts={"a.b": "line\r\nend"}, numbers={"tool.ok": 0.5, "a/b": 1.0, 'quo"te': 2.0, "": 3.0})
def test_any_key_and_any_text_survive_being_written_and_read_back(texts, numbers):
    """`[reward.weights] "tool.ok" = 0.5` used to be written without quotes, so that `--resume` could not read it."""
    recipe = Recipe.parse(
        tomllib.loads(GOOD)
        | {"reward": {"weights": numbers}, "evaluate": {"control": {"nested": texts, "list": [texts]}}}
    )
    assert Recipe.parse(tomllib.loads(recipe.to_toml())) == recipe


def test_overrides_set_numbers_texts_and_nested_keys(tmp_path):
    recipe = Recipe.load(
        write(tmp_path, GOOD),
        ["train.steps=7", "name=other", "train.estimator_options.gamma=0.9", "policy.tiny.layers=2"],
    )
    assert (recipe.train.steps, recipe.name) == (7, "other")
    assert recipe.train.estimator_options == {"gamma": 0.9}
    assert recipe.policy.tiny is not None
    assert recipe.policy.tiny.layers == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (GOOD + "[train]\nstep = 3\n", r"train\.step.*Did you mean 'steps'"),
        (GOOD + "[trian]\nsteps = 3\n", r"'trian'.*Did you mean 'train'"),
        (GOOD + "[train]\nsteps = -3\n", r"train\.steps = -3"),
        (GOOD + "[train]\nsteps = 'many'\n", r"train\.steps = 'many'"),
        (GOOD + "[train]\ngroup_size = 1\n", r"train\.group_size = 1"),
        (GOOD + "[train]\nloss_type = 'ppo'\n", r"train\.loss_type = 'ppo'"),
        (GOOD + "[train]\nestimator = 'return_to_gone'\n", r"train\.estimator.*Did you mean 'return_to_go'"),
        (GOOD + "[train]\nestimator_wrappers = ['gate']\n", r"train\.estimator.*credit_wrappers.*Did you mean 'gated'"),
        (GOOD + "[train.estimator_options]\ngama = 0.9\n", r"train\.estimator.*no option 'gama'"),
        (GOOD.replace("store-v1", "shop-v1"), r"tasks\.set = 'sql/shop-v1'.*sql/store-v1"),
        (GOOD.replace("sql/store-v1", "nowhere.jsonl"), r"there is no such file"),
        (GOOD + "[reward]\nname = 'answer_mach'\n", r"Did you mean 'answer_match'"),
        (GOOD.replace("name =", "nam ="), r"'name' is missing|no key 'nam'"),
        (GOOD.replace("[policy.tiny]\nhidden = 64", "[policy]\ncall_format = 'hermes'"), r"policy\.path or a"),
        ("name = [broken", r"not valid TOML"),
    ],
)
def test_a_wrong_recipe_says_which_key_and_what_to_write(tmp_path, text, told):
    path = write(tmp_path, text)
    with pytest.raises(RecipeError, match=told) as caught:
        Recipe.load(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("override", ["train.steps", "=3", "name.first=3", "train.stepz=3"])
def test_a_wrong_override_is_refused(tmp_path, override):
    with pytest.raises(RecipeError):
        Recipe.load(write(tmp_path, GOOD), [override])


def test_checking_a_recipe_loads_no_torch():
    code = (
        "import sys\n"
        "from agentgym.training.recipe import Recipe\n"
        f"Recipe.load({str(ROOT / 'recipes' / 'quickstart.toml')!r})\n"
        "assert not {'torch', 'trl', 'transformers'} & set(sys.modules), 'heavy imports'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


REWARD = """
[reward]
name = "answer_match"
also = ["query_evidence"]
options.answer_match = { tolerance = 0.01 }
weights = { executed = 0.5 }
caps = { executed = 1.0 }
gates = [{ by = "success", threshold = 1.0, opens = ["evidence"] }]
schedules.executed = { start = 1.0, end = 0.0, finish = 0.5 }
"""


def test_a_recipe_puts_rewards_together_with_options_weights_schedules_gates_and_caps(tmp_path):
    recipe = Recipe.load(write(tmp_path, GOOD + REWARD))
    reward = recipe.make_reward(load_task_set("sql/store-v1"))
    assert isinstance(reward, Combined)
    assert [type(part).__name__ for part in reward.rewards] == ["AnswerMatch", "QueryEvidence"]
    assert reward.rewards[0].tolerance == 0.01
    assert reward.weights == {"executed": 0.5, "evidence": 0.3}
    reward.set_progress(0.25)
    assert reward.weights == {"executed": 0.25, "evidence": 0.3}
    assert reward.gates == (Gate("success", 1.0, ("evidence",)),)
    assert reward.caps == {"executed": 1.0}
    assert Recipe.load(write(tmp_path, recipe.to_toml())) == recipe


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("also = ['query_evidense']", r"reward\.also = 'query_evidense'.*Did you mean 'query_evidence'"),
        ("options.hidden_tests = { cpu_s = 1 }", r"options\.hidden_tests: no such reward judges here. Judges: sql"),
        ("options.sql = { colour = 1 }", r"cannot be made.*colour"),
        ("gates = [{ by = 'success', threshold = 1.0, opens = ['success'] }]", r"does not gate itself"),
        ("caps = { executed = -1.0 }", r"reward\.caps\.executed = -1\.0"),
        ("schedules.x = { start = 1.0, end = 0.0, shape = 'zigzag' }", r"shape = 'zigzag'"),
    ],
)
def test_a_wrong_reward_section_says_what_is_wrong(tmp_path, text, told):
    with pytest.raises(RecipeError, match=told):
        Recipe.load(write(tmp_path, GOOD + f"[reward]\n{text}\n")).make_reward(load_task_set("sql/store-v1"))


def test_every_renamed_key_still_works_and_warns(tmp_path):
    old = {
        "episode": {"max_tokens": 300, "turn_tokens": 30},
        "warm_start": {"novice": 0.25},
        "train": {"signals": {"trunks": 3}},
        "evaluate": {"samples": 5},
    }
    with pytest.warns(DeprecationWarning, match="0.3.0") as warned:
        recipe = Recipe.parse(tomllib.loads(GOOD) | old)
    assert (recipe.episode.max_episode_tokens, recipe.episode.max_turn_tokens) == (300, 30)
    assert recipe.warm_start is not None
    assert recipe.warm_start.imperfect_oracle == 0.25
    assert (recipe.train.signals.root_episodes, recipe.evaluate.group_size) == (3, 5)
    assert sorted(str(warning.message).split(" ")[0] for warning in warned) == [
        "max_tokens",
        "novice",
        "samples",
        "trunks",
        "turn_tokens",
    ]
    assert old["evaluate"] == {"samples": 5}, "the caller's data is not changed"


def test_a_key_under_both_its_names_is_refused():
    with pytest.raises(RecipeError, match=r"\[evaluate\] has both samples and group_size"):
        Recipe.parse(tomllib.loads(GOOD) | {"evaluate": {"samples": 5, "group_size": 5}})


def test_the_old_key_novice_still_works_and_warns_and_both_names_are_an_error(tmp_path):
    with pytest.warns(DeprecationWarning, match=r"novice in \[warm_start\] is now imperfect_oracle"):
        recipe = Recipe.load(write(tmp_path, GOOD + "[warm_start]\nnovice = 0.5\n"))
    assert recipe.warm_start.imperfect_oracle == 0.5
    with pytest.raises(RecipeError, match="two names of one key"):
        Recipe.load(write(tmp_path, GOOD + "[warm_start]\nnovice = 0.5\nimperfect_oracle = 0.5\n"))
