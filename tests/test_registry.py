"""Registered names: what a wrong name says, and that a name stands for one thing."""

from __future__ import annotations

import json
from copy import deepcopy

import pytest

import agentgym
from agentgym import (
    Call,
    Environment,
    EpisodeManager,
    Message,
    Reward,
    SandboxSpec,
    ScriptedPolicy,
    Task,
    TaskSet,
    Tool,
    load_reward,
    load_task_set,
    make,
    register,
    registry,
)
from agentgym.errors import DuplicateNameError, RegistrationError, UnknownNameError
from agentgym.registry import KINDS, everything, load, names, prototype
from agentgym.testing import check_environment


@pytest.fixture(autouse=True)
def registry_as_it_was(monkeypatch):
    """What a test registers is forgotten after it."""
    monkeypatch.setattr(agentgym.registry, "_registered", deepcopy({kind: {} for kind in KINDS}))


class Quiet(Environment):
    """An environment without tools."""

    def __init__(self, volume: int = 0) -> None:
        self.volume = volume


class Boxed(Quiet):
    """An environment in a sandbox."""

    sandbox = SandboxSpec()


class Praise(Reward):
    """Always content."""


def test_a_class_or_factory_that_is_not_registered_is_made_in_the_same_way():
    backend, own_backend = object(), object()
    assert make(Quiet, volume=3).volume == 3
    assert make(Boxed, backend=backend).backend is backend

    def with_its_own():
        environment = Boxed()
        environment.backend = own_backend
        return environment

    assert make(with_its_own, backend=backend).backend is own_backend
    with pytest.raises(RegistrationError, match="returned 'no environment'"):
        make(lambda: "no environment")


async def test_a_rollout_of_a_class_has_the_backend_of_its_config():
    backends = []

    class Recorded(Boxed):
        """Notes the backend that it was given."""

        async def reset(self, task, *, seed):
            backends.append(self.backend)
            return [Message("user", "Speak.")]

    backend = object()
    config = agentgym.RolloutConfig(environment=Recorded, backend=backend)
    [trajectory] = await EpisodeManager(ScriptedPolicy([Message("assistant", "Done.")]), config).collect(
        [Task("t", "acme/none-v1", "Speak.")]
    )
    assert trajectory.error is None
    assert backends == [backend]


def test_a_registered_environment_is_made_fresh_each_time_with_its_options():
    register("acme/quiet-v1", Quiet)
    first, second = make("acme/quiet-v1"), make("acme/quiet-v1", volume=3)
    assert first is not second
    assert (first.volume, second.volume) == (0, 3)
    assert first.backend is None


def quiet_with_an_echo(volume: int = 0) -> Environment:
    """A quiet environment whose tools come from elsewhere."""
    environment = Quiet(volume)
    schema = {"properties": {"text": {"type": "string"}}, "required": ["text"]}
    environment.add_tools(
        Tool.from_schema("echo", "Say it again.", schema, lambda arguments: arguments["text"], final=True)
    )
    return environment


async def test_an_environment_may_be_registered_as_a_factory():
    register("acme/echo-v1", quiet_with_an_echo)
    first, second = make("acme/echo-v1"), make("acme/echo-v1", volume=3)
    assert (first.volume, second.volume) == (0, 3)
    assert list(first.tools) == list(prototype("acme/echo-v1").tools) == ["echo"]
    assert first.tools is not second.tools
    policy = ScriptedPolicy([Message("assistant", "", (Call("echo", {"text": "hi"}),))])
    [trajectory] = await EpisodeManager(policy).collect([Task("a", "acme/echo-v1", "Say hi.")])
    assert trajectory.turns[0].results[0].content == "hi"
    await check_environment("acme/echo-v1")


def test_a_factory_that_makes_no_environment_is_named():
    register("acme/nothing-v1", lambda: None)
    with pytest.raises(
        RegistrationError, match=r"'acme/nothing-v1' .* returned None, which is not an instance of Environment"
    ):
        make("acme/nothing-v1")
    with pytest.raises(RegistrationError, match="Register an Environment class, or a function"):
        register("acme/wrong-v1", "agentgym.sandboxes.sql:Sql")


def test_an_environment_that_needs_a_sandbox_gets_its_backend():
    class Fake:
        name = "fake"

    backend = Fake()
    register("acme/boxed-v1", Boxed)
    assert make("acme/boxed-v1", backend=backend).backend is backend


@pytest.mark.parametrize(
    ("name", "suggested"),
    [
        ("agentgym/sql-v2", "agentgym/sql-v1"),  # another version
        ("agentgym/sq-v1", "agentgym/sql-v1"),  # a typing error
        ("sql-v1", "agentgym/sql-v1"),  # no namespace
        ("acme/sql-v1", "agentgym/sql-v1"),  # another namespace
    ],
)
def test_an_unknown_environment_suggests_the_one_that_was_meant(name, suggested):
    with pytest.raises(UnknownNameError) as caught:
        make(name)
    assert f"Did you mean {suggested!r}?" in str(caught.value)
    assert "agentgym/code-v1" not in str(caught.value)  # all the others are a command away
    assert "`agentgym list environments` names all" in str(caught.value)
    assert "agentgym.environments" in str(caught.value)  # and how to add one
    assert isinstance(caught.value, KeyError)


@pytest.mark.parametrize("kind", KINDS)
def test_an_unknown_name_of_any_kind_names_its_kind(kind):
    with pytest.raises(UnknownNameError, match=f"Nothing in {kind} is named 'zzzzzz'"):
        load(kind, "zzzzzz")


def test_nothing_alike_is_no_suggestion():
    with pytest.raises(UnknownNameError) as caught:
        load_reward("zzzzzz")
    assert "Did you mean" not in str(caught.value)


def test_an_unknown_kind_names_the_kinds_there_are():
    with pytest.raises(ValueError, match=r"'enviroments' is not a kind of registered object. The kinds are: env"):
        load("enviroments", "agentgym/sql-v1")
    with pytest.raises(ValueError, match="not a kind"):
        names("enviroments")
    with pytest.raises(ValueError, match="not a kind"):
        register("x", object(), kind="thing")


@pytest.mark.parametrize("name", ["quiet", "acme/quiet", "acme/quiet-1", "Acme/quiet-v1", "acme/quiet-v1 ", "a/b/c-v1"])
def test_an_environment_without_namespace_or_version_is_refused(name):
    with pytest.raises(ValueError, match="write namespace/name-vN, for example 'acme/sql-v1'"):
        register(name, Quiet)


def test_a_name_stands_for_one_thing():
    register("acme/quiet-v1", Quiet)
    register("acme/quiet-v1", Quiet)  # the same again is no conflict: a module may be imported twice
    with pytest.raises(DuplicateNameError, match="'acme/quiet-v1' is already registered in environments"):
        register("acme/quiet-v1", Boxed)
    assert load("environments", "acme/quiet-v1") is Quiet


def test_what_a_package_offers_is_not_overwritten_in_silence():
    with pytest.raises(DuplicateNameError, match="'rloo' is already registered in estimators"):
        register("rloo", lambda group: [], kind="estimators")
    register("rloo", load("estimators", "rloo"), kind="estimators")


def test_a_reward_may_be_an_instance_or_something_that_makes_one():
    praise = Praise()
    register("one", praise, kind="rewards")
    register("class", Praise, kind="rewards")
    assert load_reward("one") is praise
    assert isinstance(load_reward("class"), Praise)
    assert load_reward("class") is not load_reward("class")


def test_a_task_set_is_found_by_name_by_factory_and_by_path(tmp_path):
    task = Task("a", "acme/quiet-v1", "Why?")
    task_set = TaskSet("acme/questions-v1", {"train": [task]})
    register("acme/questions-v1", task_set, kind="task_sets")
    register("acme/made-v1", lambda: task_set, kind="task_sets")
    assert load_task_set("acme/questions-v1") is task_set
    assert load_task_set("acme/made-v1") is task_set
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps({"id": "a", "environment": "acme/quiet-v1", "prompt": "Why?"}))
    assert load_task_set(str(path))["train"] == [task]
    with pytest.raises(UnknownNameError, match="Nothing in task_sets"):
        load_task_set(str(tmp_path / "mine"))


def test_what_is_registered_as_something_else_is_named():
    register("acme/splits-v1", lambda: {"train": []}, kind="task_sets")
    register("acme/none-v1", None, kind="task_sets")
    register("number", lambda: 1.0, kind="rewards")
    with pytest.raises(
        RegistrationError, match=r"task_sets, but it returned \{'train': \[\]\}. Register .* of TaskSet"
    ):
        load_task_set("acme/splits-v1")
    with pytest.raises(RegistrationError, match="in task_sets, but it is None"):
        load_task_set("acme/none-v1")
    with pytest.raises(RegistrationError, match=r"in rewards, but it returned 1\.0\. Register an instance of Reward"):
        load_reward("number")


def test_a_class_in_the_place_of_its_name_and_a_sandbox_that_is_no_spec_are_named():
    class Loud(Environment):
        sandbox = "namespaces"  # type: ignore[assignment]

    with pytest.raises(
        UnknownNameError, match=r"Praise'> is not a name. Register the object by register\(.*kind='rewards'\)"
    ):
        load_reward(Praise)
    with pytest.raises(RegistrationError, match=r"Loud.sandbox is 'namespaces'. Give a SandboxSpec"):
        make(Loud)


def test_everything_lists_all_kinds_and_what_was_registered():
    register("praise", Praise, kind="rewards")
    registered = set(everything())
    assert ("rewards", "praise") in registered
    assert {
        ("estimators", "return_to_go"),
        ("environments", "agentgym/sql-v1"),
        ("backends", "namespaces"),
    } <= registered
    assert names("rewards") == sorted(names("rewards"))


def test_the_package_offers_the_same_functions():
    assert agentgym.make is make
    assert agentgym.register is register
    with pytest.raises(AttributeError, match="has no attribute 'mak'"):
        agentgym.mak  # noqa: B018  the point


@pytest.mark.parametrize(
    ("environment", "built"),
    [
        ("agentgym/sql-v1", ["sql/store-v1"]),
        ("http://host:1/agentgym/sql-v1", ["sql/store-v1"]),
        ("acme/unknown-v1", []),
    ],
)
def test_the_task_set_of_an_environment_is_found_without_building_others(environment, built, monkeypatch):
    loaded = []
    monkeypatch.setattr(registry, "load_task_set", lambda name: loaded.append(name) or TaskSet(name, {}))
    chosen = registry.task_set_for(environment)
    assert loaded == built
    assert [chosen.name] == built if chosen else not built


def test_a_registered_set_is_found_for_an_environment_that_declares_none(monkeypatch):
    monkeypatch.setattr(registry, "names", lambda kind: ["sql/store-v1", "acme/set"] if kind == "task_sets" else [])
    tasks = TaskSet("acme/set", {"train": [Task("t", "acme/own-v1", "Play.", truth=1)]})
    monkeypatch.setattr(registry, "load_task_set", {"acme/set": tasks}.__getitem__)
    assert registry.task_set_for("acme/own-v1") is tasks
    assert registry.task_set_for("acme/other-v1") is None
