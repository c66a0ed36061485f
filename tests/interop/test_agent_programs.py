"""Agent programs of others play our tasks, unmodified, in an environment of their own; one of them is trained."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from agentgym import (
    Budgets,
    Call,
    EpisodeManager,
    Message,
    RolloutConfig,
    ScriptedPolicy,
    Task,
    close_backends,
    load_task_set,
)
from agentgym.interop import PolicyGateway
from agentgym.storage.ledger import Ledger
from agentgym.testing import ByteRenderer
from agentgym.training.recipe.recipe import Recipe
from agentgym.training.run import train

PROGRAMS = Path(__file__).resolve().parents[2] / "examples" / "programs"
GUESS = "text/number-guess-v1"


def command(name: str) -> list[str]:
    if not (python := os.environ.get("AGENTGYM_PROGRAMS_PYTHON")):
        pytest.skip("AGENTGYM_PROGRAMS_PYTHON names no interpreter that has openai-agents and smolagents")
    return [python, str(PROGRAMS / name), "{task}"]


async def episode_of(name: str, set_name: str, script, **options):
    task = load_task_set(set_name)["train"][0]
    policy = ScriptedPolicy(script(task), ByteRenderer())
    budgets = Budgets(infra_retries=0, time_s=90)
    config = RolloutConfig(engine=PolicyGateway(command(name)), budgets=budgets, **options)
    [trajectory] = await EpisodeManager(policy, config).collect([task])
    return trajectory


def halving(task: Task):
    """Guess the middle of what is left, whatever form the answers are sent in."""

    def script(messages: Sequence[Message]) -> Message:
        low, high = task.parameters["low"], task.parameters["high"]
        for message in messages:
            for word in re.findall("higher|lower", message.text) if message.role in ("tool", "user") else ():
                middle = (low + high) // 2
                low, high = (middle + 1, high) if word == "higher" else (low, middle - 1)
        return Message("assistant", "", (Call("guess", {"number": (low + high) // 2}),))

    return script


async def test_the_openai_agents_sdk_plays_over_responses_and_mcp():
    trajectory = await episode_of("openai_agents.py", GUESS, halving)
    assert trajectory.outcome["success"] == 1.0
    assert not trajectory.further_rows  # it sends its history back as it stands
    assert all(result.ok and result.name == "guess" for turn in trajectory.turns for result in turn.results)
    assert len(trajectory.turns) > 1


async def test_smolagents_writes_its_history_anew_and_each_turn_is_a_row():
    trajectory = await episode_of("smolagents_tools.py", GUESS, halving)
    assert trajectory.outcome["success"] == 1.0
    assert [turn.row for turn in trajectory.turns] == list(range(len(trajectory.turns)))
    assert len(trajectory.rows()) == len(trajectory.turns) > 1
    assert "Observation" in trajectory.rows()[1].opening[-1].text


@pytest.mark.needs_namespaces
async def test_mini_swe_agent_works_in_the_shell_of_an_episode():
    def script(task: Task):
        def answer(messages: Sequence[Message]) -> Message:
            is_first = messages[-1].role == "user"
            words = task.truth["command"] if is_first else "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
            return Message("assistant", "THOUGHT: so.", (Call("bash", {"command": words}),))

        return answer

    trajectory = await episode_of("mini_swe.py", "code/shell-v1", script)
    await close_backends()
    assert trajectory.outcome["success"] == 1.0
    assert not trajectory.further_rows
    assert [call.name for turn in trajectory.turns for call in turn.calls] == ["bash", "bash", "done"]


def test_a_tiny_policy_is_trained_in_the_openai_agents_sdk(tmp_path):
    recipe = {
        "name": "programs",
        "tasks": {"set": GUESS, "tags": ["level_0"]},
        "policy": {"call_format": "hermes", "tiny": {"vocabulary": 400, "hidden": 32, "layers": 2, "heads": 2}},
        "episode": {
            "max_turns": 3,
            "max_episode_tokens": 160,
            "max_turn_tokens": 24,
            "concurrency": 4,
            "program": command("openai_agents.py"),
        },
        "warm_start": {"demonstrations": 2, "steps": 40, "batch_size": 8, "validate_every": 100, "validate_tasks": 1},
        "train": {
            "steps": 2,
            "tasks_per_step": 1,
            "group_size": 2,
            "estimator": "return_to_go",
            "validate_every": 100,
            "validate_tasks": 1,
        },
        "evaluate": {"tasks": 1},
        "machine": {"device": "cpu", "threads": 1},
    }
    train(Recipe.parse(recipe), folder=tmp_path, console=Console(file=io.StringIO()))
    ledger = Ledger(tmp_path / "ledger.sqlite")
    trained = [ledger.load(name) for name in ledger.finished("train-000001")]
    assert len(trained) == 2
    for trajectory in trained:
        assert trajectory.valid
        assert all(len(turn.logprobs) == len(turn.token_ids) > 0 for turn in trajectory.turns)
        assert {turn.policy_version for turn in trajectory.turns} == {1}
    ledger.close()
