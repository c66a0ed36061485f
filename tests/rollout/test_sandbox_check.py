"""What this machine cannot enforce ends a command before anything is loaded, or is recorded where it is accepted."""

from __future__ import annotations

import json
from contextlib import closing

import pytest
from scripted_episodes import counting
from typer.testing import CliRunner

import agentgym
from agentgym import (
    Budgets,
    EpisodeManager,
    LimitUnenforceable,
    Reward,
    RolloutConfig,
    SandboxSpec,
    ScriptedPolicy,
    Task,
    TaskSet,
    registry,
)
from agentgym.cli.app import app
from agentgym.errors import JudgeError, SandboxUnavailable
from agentgym.rollout.sandbox_check import check_limits
from agentgym.sandbox import Capabilities, Usage
from agentgym.sandbox.limits import ACCEPT_WEAKER, unenforceable
from agentgym.sandbox.metering import record_missing
from agentgym.storage.ledger import Ledger
from agentgym.testing import Counter, TargetReached

MISSING = {"memory": "no group", "cpu": "no group"}


class Memory:
    """A sandbox that runs nothing."""

    missing = MISSING

    async def usage(self):
        return Usage()

    async def reset(self): ...

    async def close(self): ...


class Weak:
    """A backend without memory and processor limits. `opened` has the spec of each request."""

    name = "weak-for-tests"
    opened: list[SandboxSpec] = []

    async def create(self, spec, *, snapshot=None):
        self.opened.append(spec)
        if spec.image != "host":
            raise SandboxUnavailable("no image here")
        if not spec.accepts(MISSING):
            raise unenforceable(MISSING)
        return Memory()

    async def close(self): ...


class Absent(Weak):
    """A backend that makes no sandbox."""

    name = "absent-for-tests"

    async def create(self, spec, *, snapshot=None):
        raise SandboxUnavailable("one is short of something")

    async def probe(self):
        return Capabilities(False, reason="This machine lacks it.")


class Works(Absent):
    """A backend that would make sandboxes with weaker limits."""

    name = "works-for-tests"

    async def probe(self):
        return Capabilities(True, "process", missing=tuple(MISSING.items()))


class Boxed(Counter):
    """Counts beside a sandbox."""

    sandbox = SandboxSpec(network=("example.org",))
    reward = TargetReached()

    async def reset(self, task, *, seed):
        await self.default_sandbox()
        return await super().reset(task, seed=seed)


class Pictured(Boxed):
    sandbox = SandboxSpec(image="absent")


class BoxedJudge(TargetReached):
    """Judges in a sandbox of its own."""

    async def outcome(self, episode):
        record_missing(MISSING)
        return super().outcome(episode)


class Boxing(Reward):
    """Judges in a sandbox."""

    async def outcome(self, episode):
        try:
            await Weak().create(SandboxSpec())
        except LimitUnenforceable as error:
            raise JudgeError("The control failed too.") from error


def task(name, environment):
    return Task(name, environment, "Count to 2.", parameters={"target": 2}, truth=2)


BOXED = "test/boxed-counter-v1"
agentgym.register(BOXED, Boxed)
agentgym.register("test/pictured-counter-v1", Pictured)
TASKS = [task(f"t{n}", BOXED) for n in range(3)]
agentgym.register(
    "test/boxed-counts-v1",
    TaskSet("test/boxed-counts-v1", {"train": TASKS}, oracle=lambda task: counting()),
    kind="task_sets",
)


@pytest.fixture(autouse=True)
def nothing_is_accepted(monkeypatch):
    monkeypatch.setenv(ACCEPT_WEAKER, "")
    monkeypatch.setattr(Weak, "opened", [])
    monkeypatch.setitem(registry._registered["backends"], Weak.name, Weak)  # other tests try every backend


@pytest.mark.parametrize("command", ["rollout", "eval"])
def test_a_command_ends_before_it_loads_a_policy_with_one_message(command):
    words = [command, "test/boxed-counts-v1:train", "--policy", "no/such/model", "--backend", Weak.name]
    finished = CliRunner().invoke(app, words)
    assert (finished.exit_code, finished.stdout, finished.stderr.count("cannot enforce")) == (2, "", 1)
    assert finished.stderr.splitlines()[-1] == f"  agentgym {' '.join(words)} --accept-weaker memory,cpu"
    assert [spec.network for spec in Weak.opened] == [False], "one sandbox, and no proxy for it"


def test_a_machine_without_any_sandbox_is_told_once_what_each_backend_lacks_and_what_helps(monkeypatch):
    words = ["eval", "test/boxed-counts-v1:train", "--policy", "no/such/model", "--backend", Absent.name]
    monkeypatch.setitem(registry._registered["backends"], Absent.name, Absent)
    monkeypatch.setitem(registry._registered["backends"], Works.name, Works)
    monkeypatch.setattr(registry, "names", lambda kind: [Absent.name, Works.name])
    finished = CliRunner().invoke(app, words)
    helps = f"--backend {Works.name} --accept-weaker memory,cpu"
    assert (finished.exit_code, finished.stdout) == (2, "")
    assert finished.stderr.count("'absent-for-tests' makes no sandbox here. This machine lacks it.") == 1
    assert f"For one that does, add {helps}" in finished.stderr
    assert finished.stderr.splitlines()[-1] == f"  agentgym {' '.join(words)} {helps}"
    monkeypatch.setattr(Works, "probe", Absent.probe)
    finished = CliRunner().invoke(app, words)
    assert finished.stderr.splitlines()[-2:] == [
        "No other backend makes one here either:",
        f"{Works.name}: the same.",
    ]


async def test_the_limits_that_a_judges_sandbox_lacks_are_recorded_too():
    config = RolloutConfig(environment=Counter, reward=BoxedJudge())
    [episode, *_] = await EpisodeManager(ScriptedPolicy(counting()), config).collect(TASKS)
    assert (episode.success, episode.provenance.weaker_limits) == (1, ["memory", "cpu"])


def test_what_was_accepted_and_is_weaker_is_recorded_and_shown(tmp_path):
    words = ["eval", "test/boxed-counts-v1:train", "--policy", "oracle", "--backend", Weak.name, "--out", str(tmp_path)]
    finished = CliRunner().invoke(app, [*words, "--html", "--accept-weaker", "all"])
    assert (finished.exit_code, finished.stdout.count("sandboxes with weaker limits: memory, cpu")) == (0, 1)
    record = json.loads((tmp_path / "evaluation" / "train.json").read_text())
    assert record["weaker_limits"] == ["memory", "cpu"]
    with closing(Ledger(tmp_path / "ledger.sqlite")) as ledger:
        assert [episode.provenance.weaker_limits for episode in ledger.trajectories()] == [["memory", "cpu"]] * 3
    summary = CliRunner().invoke(app, ["show", str(tmp_path)]).stdout
    assert "sandboxes with weaker limits: memory, cpu" in " ".join(summary.split())
    assert "Played in sandboxes with weaker limits: memory, cpu." in (tmp_path / "report.html").read_text()
    rolled = CliRunner().invoke(app, ["rollout", *words[1:-2], "--accept-weaker", "memory,cpu"])
    assert "sandboxes with weaker limits: memory, cpu" in rolled.stdout


async def test_one_sandbox_is_opened_for_all_environments_and_none_for_those_elsewhere():
    config = RolloutConfig(backend=Weak.name)
    pictured = [task("p", "test/pictured-counter-v1")]
    with pytest.raises(LimitUnenforceable):
        await check_limits([*TASKS, *pictured], config)
    assert len(Weak.opened) == 1
    await check_limits(TASKS, RolloutConfig(backend=Weak.name, environment=f"http://127.0.0.1:9/{BOXED}"))
    await check_limits([task("c", "agentgym/text-doors-v1")], config)
    await check_limits(TASKS, RolloutConfig(backend=Weak.name, environment=Counter))
    assert len(Weak.opened) == 1


async def test_a_judge_without_a_sandbox_is_not_the_cause():
    config = RolloutConfig(environment=Counter, reward=Boxing(), budgets=Budgets(infra_retries=0))
    with pytest.raises(LimitUnenforceable, match="--accept-weaker memory,cpu") as raised:
        await EpisodeManager(ScriptedPolicy(counting()), config).collect(TASKS)
    assert raised.value.limits == "memory,cpu"


async def test_a_run_ends_with_the_first_episode_that_no_retry_would_save():
    """A library's caller checks nothing before: three episodes are not retried, and the error is raised once."""
    config = RolloutConfig(backend=Weak.name, concurrency=1, budgets=Budgets(infra_retries=2))
    with pytest.raises(LimitUnenforceable, match="--accept-weaker memory,cpu"):
        await EpisodeManager(ScriptedPolicy(()), config).collect(TASKS)
    assert len(Weak.opened) == 1
