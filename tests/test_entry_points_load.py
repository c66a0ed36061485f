"""Every entry point of pyproject.toml loads and is of the kind its group promises."""

from __future__ import annotations

import inspect
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest
from source_tree import project
from typer.testing import CliRunner

from agentgym import Environment, Reward, Task, TaskSet, registry
from agentgym.cli.app import app
from agentgym.credit.group import SIGNALS
from agentgym.errors import UnknownNameError
from agentgym.rollout import EpisodeHook
from agentgym.rollout.engine import Engine
from agentgym.sandbox import Backend

OF_THE_WHEEL: dict[str, dict[str, str]] = project()["project"]["entry-points"]
OF_THE_CHECKOUT: dict[str, dict[str, str]] = project()["tool"]["agentgym"]["checkout"]["entry-points"]
GROUPS = {
    group: OF_THE_WHEEL.get(group, {}) | OF_THE_CHECKOUT.get(group, {}) for group in {*OF_THE_WHEEL, *OF_THE_CHECKOUT}
}


def of(kind: str) -> list[str]:
    return sorted(GROUPS.get(f"agentgym.{kind}", {}))


def load(kind: str, name: str):
    return EntryPoint(name, GROUPS[f"agentgym.{kind}"][name], f"agentgym.{kind}").load()


def callable_without_arguments(thing) -> bool:
    return callable(thing) and not [
        parameter
        for parameter in inspect.signature(thing).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]


@pytest.mark.parametrize("name", of("environments"))
def test_an_environment_is_a_class_that_needs_no_arguments(name):
    thing = load("environments", name)
    assert issubclass(thing, Environment)
    assert callable_without_arguments(thing)


@pytest.mark.parametrize("name", of("environment_schemes"))
def test_an_environment_scheme_refuses_what_is_no_address(name):
    with pytest.raises(UnknownNameError):
        load("environment_schemes", name)(f"{name}://")


@pytest.mark.parametrize("name", of("engines"))
def test_an_engine_is_made_without_arguments_and_connects_to_nothing(name):
    engine = load("engines", name)()
    assert isinstance(engine, Engine)
    assert engine.name == name


@pytest.mark.parametrize("name", of("task_sets"))
def test_a_task_set_is_one_or_a_function_that_needs_no_arguments(name):
    """What the function makes is looked at in tests/contracts, where each set is built once."""
    thing = load("task_sets", name)
    assert isinstance(thing, TaskSet) or callable_without_arguments(thing)


@pytest.mark.parametrize("name", of("rewards"))
def test_a_reward_is_one_or_makes_one(name):
    assert isinstance(registry.load_reward(name), Reward)


@pytest.mark.parametrize("name", of("backends"))
async def test_a_backend_is_made_without_arguments_under_its_own_name(name):
    backend = load("backends", name)()
    try:
        assert isinstance(backend, Backend)
        assert backend.name == name
    finally:
        await backend.close()


@pytest.mark.filterwarnings("ignore::agentgym.credit.CreditWarning")  # an estimator kept for reproduction says so
@pytest.mark.parametrize("name", of("estimators"))
def test_an_estimator_turns_a_group_into_one_value_per_turn(name):
    from agentgym.credit import Group, estimator
    from agentgym.testing.estimators import random_signals

    group = Group.from_arrays(**random_signals(np.random.default_rng(0), size=3))
    assert [len(advantages) for advantages in estimator(name)(group)] == group.turns.tolist()


@pytest.mark.parametrize("name", of("credit_wrappers"))
def test_a_credit_wrapper_makes_an_estimator_of_an_estimator(name):
    from agentgym.credit import Estimator, estimator

    assert isinstance(load("credit_wrappers", name)(estimator("rloo")), Estimator)


@pytest.mark.parametrize("name", of("call_formats"))
def test_a_call_format_parses_text_and_has_its_own_name(name):
    thing = load("call_formats", name)
    thing = thing() if isinstance(thing, type) else thing
    assert thing.name == name
    assert thing.parse("just words") == ("just words", ())


@pytest.mark.parametrize("name", of("policies"))
def test_a_policy_is_made_by_a_callable(name):
    assert callable(load("policies", name))


@pytest.mark.parametrize("name", of("assets"))
def test_an_asset_is_a_function_that_needs_no_arguments(name):
    assert callable_without_arguments(load("assets", name))


@pytest.mark.parametrize("name", of("importers"))
def test_an_importer_is_a_function_of_one_path(name):
    required = [
        parameter
        for parameter in inspect.signature(load("importers", name)).parameters.values()
        if parameter.default is parameter.empty
    ]
    assert len(required) == 1


@pytest.mark.parametrize("name", of("objectives"))
def test_an_objective_is_a_loss_of_trl_or_a_function_of_tokens(name):
    from agentgym.training.objectives.contract import TrlLoss

    thing = load("objectives", name)
    assert isinstance(thing, TrlLoss) or next(iter(inspect.signature(thing).parameters)) == "tokens"


@pytest.mark.parametrize("name", of("loss_terms"))
def test_a_loss_term_is_a_function_of_tokens(name):
    assert next(iter(inspect.signature(load("loss_terms", name)).parameters)) == "tokens"


# `pass_rate` reads a recorded run and `paired` wants two phrasings, which tests/methods make for them.
@pytest.mark.parametrize("name", [name for name in of("samplers") if name not in ("pass_rate", "paired")])
def test_a_sampler_is_made_of_tasks_and_a_seed(name):
    from agentgym.training.samplers import make_sampler

    task = Task("t", "test/none-v1", "?", tags=("easy",))
    text = {"tagged": "tagged(tag='easy')"}.get(name, name)
    assert make_sampler(text, [task], 0).draw(1, 0) == [task]


@pytest.mark.parametrize("name", of("searches"))
def test_a_search_has_a_budget_and_a_value_by_default(name):
    search = load("searches", name)()
    assert search.nodes > 0
    assert search.reads_outcome is False


@pytest.mark.parametrize("name", of("search_values"))
def test_a_search_value_says_whether_it_reads_the_outcome(name):
    assert isinstance(load("search_values", name).reads_outcome, bool)


@pytest.mark.parametrize("name", of("gatherers"))
def test_a_gatherer_wraps_a_gatherer(name):
    from agentgym.training.gatherers import play_groups

    options = {"instructions": {"population": ["Look first.", "Think."]}}.get(name, {})
    assert callable(load("gatherers", name)(play_groups, **options))


@pytest.mark.parametrize("name", of("training_parts"))
def test_a_training_part_is_a_class_of_parts_that_takes_part_in_training(name):
    from agentgym.training import TrainingPart

    needed = {"role_order": {"roles": ["planner"]}, "role_rotation": {"every": 1}, "teacher": {"path": "a/checkpoint"}}
    part = load("training_parts", name)(**needed.get(name, {}))
    assert isinstance(part, TrainingPart)
    changed = [
        name
        for name in ("update", "training_tasks", "change_pass", "credited")
        if getattr(type(part), name) is not getattr(TrainingPart, name)
    ]
    assert part.provides or part.callbacks() or changed


@pytest.mark.parametrize("name", of("optimisers"))
def test_an_optimiser_is_made_of_a_model_and_a_learning_rate(name):
    parameters = inspect.signature(load("optimisers", name)).parameters
    assert next(iter(parameters)) == "model"
    assert "learning_rate" in parameters


@pytest.mark.parametrize("name", of("signal_providers"))
def test_a_signal_provider_says_that_it_provides_the_signal_of_its_name(name):
    from agentgym.training.signals import SignalProvider

    provider = load("signal_providers", name)
    assert issubclass(provider, SignalProvider)
    assert name in provider.provides
    assert name in SIGNALS


@pytest.mark.parametrize("name", of("selections"))
def test_a_selection_is_made_without_options(name):
    from agentgym.training.stages.selection import make_selection

    assert callable(make_selection(name))


@pytest.mark.parametrize("name", of("trackers"))
def test_a_tracker_names_its_package_and_the_extra_that_installs_it(name):
    tracker = load("trackers", name)
    assert tracker.package.partition(".")[0] == name
    assert tracker.extra
    assert list(inspect.signature(tracker).parameters) == ["folder", "name", "config"]


@pytest.mark.parametrize("name", of("episode_hooks"))
def test_an_episode_hook_is_a_class_of_hooks(name):
    hook = load("episode_hooks", name)
    assert issubclass(hook, EpisodeHook)
    assert hook.name in ("", name)


@pytest.mark.parametrize("name", of("logit_hooks"))
def test_a_logit_hook_is_made_of_a_renderer_and_the_tokens_that_end_a_turn(name):
    assert list(inspect.signature(load("logit_hooks", name)).parameters)[:2] == ["renderer", "end_ids"]


@pytest.mark.parametrize("name", of("stages"))
def test_a_stage_is_a_defined_one(name):
    from agentgym.training.stages.contract import Stage

    assert isinstance(load("stages", name), Stage)


@pytest.mark.parametrize("name", of("exporters"))
def test_an_exporter_is_a_function_of_an_evaluation_its_episodes_a_path_and_named_options(name):
    parameters = list(inspect.signature(load("exporters", name)).parameters.values())
    assert [parameter.kind is parameter.KEYWORD_ONLY for parameter in parameters[:3]] == [False] * 3
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in parameters[3:])


@pytest.mark.parametrize("name", of("commands"))
def test_a_command_is_a_function_or_an_application_with_help_that_shows_an_example(name):
    words = name.split(".")
    done = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "300", "NO_COLOR": "1", "TERM": "dumb"})
    assert done.exit_code == 0
    assert f"Example: agentgym {' '.join(words)}" in " ".join(done.output.split())


def test_every_kind_of_entry_point_is_checked_here():
    """A new kind in the registry needs a test above."""
    checked = {kind for kind in registry.KINDS if f'of("{kind}")' in Path(__file__).read_text()}
    assert checked == set(registry.KINDS)
