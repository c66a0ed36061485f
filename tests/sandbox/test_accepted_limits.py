"""Weaker limits are accepted by name, by one mechanism: a spec, a switch, a recipe's key, a variable."""

from __future__ import annotations

import asyncio
import os
import pickle

import pytest
from typer.testing import CliRunner

from agentgym.cli.app import app, remedies, split_option
from agentgym.cluster.episode_worker import fault_of, node_facts
from agentgym.deprecation import AgentGymDeprecationWarning
from agentgym.errors import UnknownNameError
from agentgym.sandbox.limits import ACCEPT_WEAKER, LIMITS, SandboxSpec, accepting, limit_names, unenforceable
from agentgym.training.recipe.episode_section import EpisodeSection

WATCHED = {"cpu": "no group", "memory": "no group."}


@pytest.fixture(autouse=True)
def nothing_is_accepted(monkeypatch):
    monkeypatch.setenv(ACCEPT_WEAKER, "")


def test_names_are_read_from_a_text_and_an_unknown_one_is_refused_with_the_nearest():
    assert limit_names("cpu, memory", "x") == limit_names(["memory", "cpu"], "x") == ("memory", "cpu")
    assert limit_names("memory,all", "x") == ("all",)
    assert limit_names("", "x") == ()
    with pytest.raises(
        UnknownNameError, match=r"--here: no limit of a sandbox is named 'memroy'\. Did you mean 'memory'"
    ):
        limit_names("memroy", "--here")
    with pytest.raises(UnknownNameError, match=r"SandboxSpec\.accept_weaker"):
        SandboxSpec(accept_weaker=("nothing",))
    with pytest.raises(ValueError, match="no limit of a sandbox"):
        EpisodeSection(accept_weaker=["nothing"])


def test_a_spec_accepts_what_it_names_and_what_its_process_does(monkeypatch):
    spec = SandboxSpec(accept_weaker=("cpu",))
    assert [spec.accepts(["cpu"]), spec.accepts(WATCHED), SandboxSpec().accepts(())] == [True, False, True]
    with EpisodeSection(accept_weaker=["memory"]).accepting():
        assert spec.accepts(WATCHED)
        assert not SandboxSpec().accepts(WATCHED)
        with accepting(["cpu"]):
            assert SandboxSpec().accepts(WATCHED)
    assert os.environ[ACCEPT_WEAKER] == ""
    assert SandboxSpec(accept_weaker=("all",)).accepts([*LIMITS, "a limit of another backend"])
    monkeypatch.setenv(ACCEPT_WEAKER, "memroy")
    with pytest.raises(UnknownNameError, match=f"{ACCEPT_WEAKER}: no limit"):
        spec.accepts(WATCHED)


def test_the_old_keyword_accepts_everything():
    with pytest.warns(AgentGymDeprecationWarning, match="accept_weaker="):
        assert SandboxSpec(insecure_ok=True) == SandboxSpec(accept_weaker=("all",))
    with pytest.warns(AgentGymDeprecationWarning):
        assert SandboxSpec(insecure_ok=False) == SandboxSpec()


def test_a_refusal_says_the_words_that_accept():
    error = unenforceable(WATCHED, "Remedy: be root.")
    assert "memory: no group. cpu: no group. Remedy: be root. To accept" in str(error)
    assert "add --accept-weaker memory,cpu to the command, or set AGENTGYM_ACCEPT_WEAKER=memory,cpu." in str(error)
    assert pickle.loads(pickle.dumps(error)).limits == "memory,cpu"
    assert "--accept-weaker all" in str(unenforceable({"guest": "seen"}))


def test_the_switch_may_stand_anywhere_before_two_dashes():
    option = "--accept-weaker"
    assert split_option(option, ["eval", "a", option, "cpu", "-x"]) == ([option, "cpu"], ["eval", "a", "-x"])
    assert split_option(option, ["eval", f"{option}=cpu"]) == ([f"{option}=cpu"], ["eval"])
    assert split_option(option, ["run", "--", option, "cpu"]) == ([], ["run", "--", option, "cpu"])
    lines = remedies(unenforceable(WATCHED), ["eval", "a b"])
    assert lines[0] == "systemd-run --user --scope -p Delegate=yes agentgym eval 'a b'"
    assert lines[1] == "agentgym eval 'a b' --accept-weaker memory,cpu"


def test_an_unknown_name_ends_a_command_before_it_does_anything():
    finished = CliRunner().invoke(app, ["rollout", "no/such-set-v1", "--accept-weaker", "memroy"])
    assert (finished.exit_code, finished.stderr.count("Error:")) == (2, 1)
    assert "Did you mean 'memory'?" in finished.stderr
    assert os.environ[ACCEPT_WEAKER] == ""


def test_a_node_that_enforces_less_is_refused_unless_that_is_accepted():
    facts = asyncio.run(node_facts(None)) | {"missing": WATCHED}
    assert "--accept-weaker memory,cpu" in fault_of(facts)
    with accepting(["memory", "cpu"]):
        assert fault_of(facts) == ""
