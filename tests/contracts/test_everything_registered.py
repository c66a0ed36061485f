"""Every registered name keeps the contract of its kind. A new entry point is checked here without another line.

Run from outside of the repository against an installed wheel, this is the test of the package.
"""

from __future__ import annotations

import os
import warnings

import pytest
from built_sets import each_environment, installed, set_of
from pins import PINS, tools_digest

from agentgym import Reward, SandboxSpec
from agentgym.credit import CreditWarning
from agentgym.errors import UnknownNameError
from agentgym.registry import (
    KINDS,
    close_backends,
    everything,
    load,
    load_reward,
    make,
    names,
    shared_backend,
)
from agentgym.testing import (
    check_backend,
    check_call_format,
    check_environment,
    check_estimator,
    check_policy,
    check_reward,
)

EXTRAS = ("torch", "transformers")  # without the extra `train`, some policies and every objective cannot be imported
SAMPLES = {
    "agentgym/desktop-v1": 1,  # each of its episodes starts a display and real programs
    "agentgym/desktop-v2": 1,
    "agentgym/swe-edit-v1": 1,  # each judging runs a repository's tests
    "agentgym/swe-given-v1": 1,
    "agentgym/swe-v1": 1,
    "agentgym/web-form-v1": 1,  # each of its episodes opens pages in a browser
    "agentgym/web-v1": 1,
    "agentgym/web-v2": 1,
    "agentgym/web-wizard-v1": 1,
}
SAMPLE = 3 if "AGENTGYM_TEST_ALL" in os.environ else 2
"""Tasks that any other environment is played on."""
AT_NIGHT = {
    "agentgym/apps-code-v1",
    "agentgym/code-verilog-v1",
    "agentgym/desktop-v1",
    "agentgym/sql-duckdb-v1",
    "agentgym/sql-postgres-v1",
    "agentgym/swe-edit-v1",
    "agentgym/swe-v1",
    "agentgym/web-form-v1",
    "agentgym/web-v1",
    "agentgym/web-wizard-v1",
}
"""Environments that are others with other tools, programs or engines: their own tests play them; `make test-all` checks
them here too."""
TOOLS_AT_RESET = {
    "agentgym/mcp-v1",
    "agentgym/function-turns-v1",
    "agentgym/tau-v1",
    "agentgym/tau2-v1",
}  # the task names them; `agentgym check` looks
OF_FOLDERS = {"agentgym/code-terminal-v1", "agentgym/textworld-v1"}
"""Of the user's folders and games: tests/sandboxes/test_terminal.py, tests/tasks/test_textworld_importer.py."""
CALLS_OF_FORMAT = {"tags": ("query", "sql")}  # a call that the format knows; others can write any


@pytest.fixture(autouse=True)
async def backends_of_this_loop():
    """A backend belongs to the event loop of its test."""
    yield
    await close_backends()


def of(kind):
    return pytest.mark.parametrize("name", installed(kind))


def playable(name):
    """Skips the test, with the environment's own words, where this machine lacks a package or program for it."""
    if reason := load("environments", name).unavailable_reason():
        pytest.skip(f"{name}: {reason}")


@pytest.mark.parametrize(("kind", "pins"), [("environments", "tools"), ("task_sets", "task_sets")])
def test_an_id_that_was_pinned_is_still_registered(kind, pins):
    """An old version stays for one release, and its pin goes with it; then the error for it names the new one."""
    missing = PINS[pins].keys() - set(names(kind))
    assert not missing, "these ids can no longer be run: see docs/stability.md"
    newest = max(name for name in names(kind) if name.endswith("-v1"))
    with pytest.raises(UnknownNameError, match=f"Did you mean '{newest.removesuffix('1')}"):
        load(kind, f"{newest.removesuffix('1')}0")


def test_every_registered_name_can_be_imported():
    assert {kind for kind, _ in everything()} == set(KINDS)
    for kind, name in everything():
        try:
            assert load(kind, name) is not None
        except ImportError as error:
            if (
                kind not in ("policies", "objectives", "loss_terms", "stages")
                or str(error.name).partition(".")[0] not in EXTRAS
            ):
                raise


@pytest.mark.needs_namespaces
@each_environment(without=OF_FOLDERS, at_night=AT_NIGHT)
async def test_an_environment_keeps_its_contract(name):
    playable(name)
    await check_environment(name, set_of(name), sample=SAMPLES.get(name, SAMPLE))


@of("environments")
def test_an_environment_says_who_judges_it_and_how_it_is_isolated(name):
    environment = load("environments", name)
    assert environment.reward in names("rewards")
    assert environment.sandbox is None or isinstance(environment.sandbox, SandboxSpec)
    assert "isolated" in (environment.__doc__ or "").casefold()
    assert make(name).tools or name in TOOLS_AT_RESET


@each_environment()
def test_the_task_set_that_an_environment_declares_is_played_in_it(name):
    if task_set := set_of(name):
        assert name in {tasks[0].environment for tasks in task_set.values() if len(tasks)}


@of("environments")
def test_the_tools_of_an_environment_are_those_that_results_were_measured_with(name):
    if name in PINS["tools"]:
        assert tools_digest(name) == PINS["tools"][name], "Other tools need another -vN: see docs/stability.md"


@of("rewards")
async def test_a_reward_keeps_its_contract_on_strange_episodes(name):
    assert isinstance(load_reward(name), Reward)
    await check_reward(name)


@of("estimators")
def test_an_estimator_keeps_its_contract(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CreditWarning)
        check_estimator(name)


@of("credit_wrappers")
@pytest.mark.parametrize("base", ["vine", pytest.param("return_to_go", marks=pytest.mark.thorough)])
def test_a_wrapped_estimator_keeps_the_contract_of_estimators(name, base):
    check_estimator(f"{base} | {name}")


@of("call_formats")
def test_a_call_format_keeps_its_contract(name):
    tool, argument = CALLS_OF_FORMAT.get(name, ("look", "text"))
    check_call_format(name, tool=tool, argument=argument)


@pytest.mark.needs_namespaces
@pytest.mark.parametrize("name", [name for name in names("backends") if name == "namespaces"])
async def test_a_backend_keeps_its_contract(name):
    """Attacks on it are in the tests of the sandbox."""
    await check_backend(shared_backend(name), attacks=False)


@of("policies")
def test_a_policy_is_made_by_something_that_can_be_called(name):
    """What it answers is checked where there is a model or a server: below, and in tests/policy."""
    if name == "transformers":
        pytest.importorskip("torch")
    assert callable(load("policies", name))


async def test_the_policy_in_this_process_keeps_its_contract(tmp_path):
    """`transformers` from a checkpoint on disk, with a tiny model of random weights."""
    pytest.importorskip("torch")
    from agentgym.policy import make_model, make_tokenizer

    tokenizer = make_tokenizer(["look at the moon, say something, name a colour"] * 4, 400)
    make_model(tokenizer, hidden=64, layers=2).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    policy = load("policies", "transformers")(str(tmp_path))
    try:
        await check_policy(policy)
    finally:
        await policy.close()


@of("assets")
def test_an_asset_is_the_same_bytes_every_time(name):
    asset = load("assets", name)
    make_bytes = getattr(asset, "__wrapped__", asset)()
    assert isinstance(make_bytes, bytes)
    assert make_bytes == asset()
