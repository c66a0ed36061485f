"""A recipe is checked whole before anything heavy starts, and every complaint names the key."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from operator import attrgetter
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentgym import Combined, Gate, load_task_set
from agentgym.deprecation import REMOVED_IN, AgentGymDeprecationWarning
from agentgym.errors import RecipeError
from agentgym.registry import names
from agentgym.training import Recipe
from agentgym.training.recipe.keys import RENAMED_KEYS
from research.reference.recipe_page import keys

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
    paths = sorted((ROOT / "recipes").glob("*.toml"))
    assert paths
    for path in paths:
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
    ("text", "message"),
    [
        (GOOD + "[train]\nstep = 3\n", r"train\.step.*Did you mean 'steps'"),
        (GOOD + "[trian]\nsteps = 3\n", r"'trian'.*Did you mean 'train'"),
        (GOOD + "[train]\nsteps = -3\n", r"train\.steps = -3"),
        (GOOD + "[train]\nsteps = 'many'\n", r"train\.steps = 'many'"),
        (GOOD + "[train]\ngroup_size = 0\n", r"train\.group_size = 0"),
        (GOOD + "[train]\nobjective = 'trpo'\n", r"train\.objective = 'trpo'.*list objectives"),
        (GOOD + "[train]\nestimator = 'return_to_gone'\n", r"train\.estimator.*Did you mean 'return_to_go'"),
        (GOOD + "[train]\nestimator_wrappers = ['gate']\n", r"train\.estimator.*credit_wrappers.*Did you mean 'gated'"),
        (GOOD + "[train.estimator_options]\ngama = 0.9\n", r"train\.estimator.*no option 'gama'"),
        (GOOD.replace("store-v1", "shop-v1"), r"tasks\.set = 'sql/shop-v1'.*sql/store-v1"),
        (GOOD.replace("sql/store-v1", "nowhere.jsonl"), r"this file does not exist"),
        (GOOD + "[reward]\nname = 'answer_mach'\n", r"Did you mean 'answer_match'"),
        (GOOD.replace("name =", "nam ="), r"'name' is missing|no key 'nam'"),
        (GOOD.replace("[policy.tiny]\nhidden = 64", "[policy]\ncall_format = 'hermes'"), r"policy\.path, or a"),
        ("name = [broken", r"not valid TOML"),
    ],
)
def test_a_wrong_recipe_says_which_key_and_what_to_write(tmp_path, text, message):
    path = write(tmp_path, text)
    with pytest.raises(RecipeError, match=message) as caught:
        Recipe.load(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("override", ["train.steps", "=3", "name.first=3", "train.stepz=3"])
def test_a_wrong_override_is_refused(tmp_path, override):
    with pytest.raises(RecipeError):
        Recipe.load(write(tmp_path, GOOD), [override])


def test_checking_a_recipe_loads_no_torch():
    code = (
        "import sys\n"
        "from agentgym.training.recipe.recipe import Recipe\n"
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
    ("text", "message"),
    [
        ("also = ['query_evidense']", r"reward\.also = 'query_evidense'.*Did you mean 'query_evidence'"),
        (
            "options.hidden_tests = { cpu_s = 1 }",
            r"options\.hidden_tests: this recipe uses no reward 'hidden_tests'. Its rewards are: sql",
        ),
        ("options.sql = { colour = 1 }", r"cannot be made.*colour"),
        ("gates = [{ by = 'success', threshold = 1.0, opens = ['success'] }]", "and must not gate itself"),
        ("caps = { executed = -1.0 }", r"reward\.caps\.executed = -1\.0"),
        ("schedules.x = { start = 1.0, end = 0.0, shape = 'zigzag' }", r"shape = 'zigzag'"),
    ],
)
def test_a_wrong_reward_section_says_what_is_wrong(tmp_path, text, message):
    with pytest.raises(RecipeError, match=message):
        Recipe.load(write(tmp_path, GOOD + f"[reward]\n{text}\n")).make_reward(load_task_set("sql/store-v1"))


@pytest.fixture
def renamed(monkeypatch):
    """One key that stands beside its old name, and one that moved into a section of its own."""
    monkeypatch.setitem(RENAMED_KEYS, "evaluate.samples", "evaluate.group_size")
    monkeypatch.setitem(RENAMED_KEYS, "train.root_episodes", "train.signals.root_episodes")
    return RENAMED_KEYS


@pytest.mark.usefixtures("renamed")
@pytest.mark.parametrize("given_in", ["file", "override"])
@pytest.mark.parametrize("old", ["evaluate.samples", "train.root_episodes"])
def test_an_old_key_works_and_warns_once_with_its_present_name(tmp_path, old, given_in):
    new = RENAMED_KEYS[old]
    (key, value, overrides) = (old, 3, []) if given_in == "file" else (new, 6, [f"{old}=3"])
    section, _, name = key.rpartition(".")
    path = write(tmp_path, GOOD + f"[{section}]\n{name} = {value}\n")
    with pytest.warns(AgentGymDeprecationWarning) as warned:
        recipe = Recipe.load(path, overrides)
    assert attrgetter(new)(recipe) == 3
    assert [str(warning.message) for warning in warned] == [
        f"{old} is now {new}. The old name stops working in agentgym {REMOVED_IN}."
    ]
    assert warned[0].filename == __file__


@pytest.mark.usefixtures("renamed")
def test_a_key_under_both_its_names_is_refused(tmp_path):
    path = write(tmp_path, GOOD + "[evaluate]\nsamples = 5\ngroup_size = 5\n")
    with pytest.raises(RecipeError, match=r"recipe.toml has both evaluate.samples and evaluate.group_size"):
        Recipe.load(path)


@pytest.mark.usefixtures("renamed")
def test_old_keys_of_data_that_is_parsed_work_and_the_callers_data_is_not_changed():
    old = {"evaluate": {"samples": 5}}
    with pytest.warns(AgentGymDeprecationWarning, match=r"evaluate.samples is now evaluate.group_size"):
        assert Recipe.parse(tomllib.loads(GOOD) | old).evaluate.group_size == 5
    assert old == {"evaluate": {"samples": 5}}


@pytest.mark.usefixtures("renamed")
@pytest.mark.filterwarnings("error")
def test_the_recipe_that_a_run_folder_keeps_gives_no_warning_for_its_old_keys(tmp_path):
    recipe = Recipe.load_recorded(write(tmp_path, GOOD + "[evaluate]\nsamples = 5\n"))
    assert recipe == Recipe.parse(tomllib.loads(GOOD) | {"evaluate": {"group_size": 5}})


def test_every_old_key_stands_for_a_key_of_today():
    parts = tuple(f"train.parts.{name}" for name in names("training_parts"))
    gone = set(RENAMED_KEYS.values()) - keys()
    assert all(key in parts or key.startswith(tuple(f"{part}." for part in parts)) for key in gone), gone
    assert not RENAMED_KEYS.keys() & keys()


def test_options_of_a_stage_replace_the_keys_of_a_group_one_by_one(tmp_path):
    text = GOOD + "[train]\noptimiser.learning_rate = 1e-5\nsignals.epochs = 7\nsignals.double = true\n"
    recipe = Recipe.load(write(tmp_path, text))
    changed = recipe.with_options("train", {"optimiser": {"max_grad_norm": 2.0}, "signals": {"epochs": 3}}, "here")
    assert (changed.train.optimiser.learning_rate, changed.train.optimiser.max_grad_norm) == (1e-5, 2.0)
    assert (changed.train.signals.epochs, changed.train.signals.double) == (3, False)  # a section is replaced whole
    with pytest.warns(AgentGymDeprecationWarning, match=r"train.max_grad_norm is now train.optimiser.max_grad_norm"):
        assert recipe.with_options("train", {"max_grad_norm": 2.0}, "here").train.optimiser == changed.train.optimiser
