"""Our environments as Gymnasium's: its own checker passes, and what is earned is what the episode loop gives."""

from __future__ import annotations

from copy import deepcopy

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector.utils import create_shared_memory, read_from_shared_memory, write_to_shared_memory

from agentgym import Budgets, Call, Message, load_task_set
from agentgym.bridges.gymnasium import TextEnv
from agentgym.bridges.gymnasium.any_text import AnyText
from agentgym.errors import AgentGymError
from agentgym.policy import Hermes
from agentgym.testing import Counter, TargetReached

SET = load_task_set("text/frozen-lake-v1")


@pytest.fixture
def env():
    text_env = TextEnv("text/frozen-lake-v1", budgets=Budgets(max_turns=6))
    yield text_env
    text_env.close()


def solve(env, task, until=99):
    """Play the oracle. Returns: what each step gave."""
    script, conversation, steps = SET.oracle(task), [], []
    while len(steps) < until and not (steps and (steps[-1][2] or steps[-1][3])):
        message = script(conversation)
        steps.append(env.step(Hermes().render(message.calls)))
        conversation += [message, Message("tool", steps[-1][0])]
    return steps


@pytest.mark.parametrize("name", ["text/frozen-lake-v1", "text/wordle-v1:validation"])
def test_the_checker_of_gymnasium_passes(name):
    spec = gymnasium.envs.registration.EnvSpec("agentgym/TextEnv-v0", entry_point=TextEnv, kwargs={"tasks": name})
    text_env = gymnasium.make(spec, disable_env_checker=True, render_mode="ansi")
    check_env(text_env.unwrapped)
    text_env.close()


def test_the_oracle_wins_with_the_outcome_as_its_last_reward(env):
    opening, info = env.reset(options={"task": 4})
    task = SET["train"][4]
    assert info == {"task": task.id}
    assert opening.startswith(task.prompt)
    assert '"move"' in opening
    steps = solve(env, task)
    *before, (seen, reward, terminated, truncated, info) = steps
    assert (seen, reward, terminated, truncated) == ("You reached the goal.", 1.0, True, False)
    assert info["outcome"] == {"success": 1.0, "progress": 1.0}
    assert [step[1:4] for step in before] == [(0.0, False, False)] * len(before)


def test_a_budget_truncates_and_words_alone_terminate(env):
    env.reset(seed=0)
    move = Hermes().render((Call("move", {"steps": ["sideways"]}),))
    steps = [env.step(move) for _ in range(6)]
    assert [step[2:4] for step in steps] == [(False, False)] * 5 + [(False, True)]
    assert "argument 'steps.0': Input should be 'up', 'down'" in steps[0][0]
    env.reset(seed=0)
    assert env.step("I give up.")[1:4] == (0.0, True, False)


def test_a_step_outside_of_an_episode_is_refused(env):
    with pytest.raises(AgentGymError, match="Call reset first"):
        env.step("hello")
    env.reset(seed=1)
    env.step("I give up.")
    with pytest.raises(AgentGymError, match="Call reset first"):
        env.step("hello")


def test_the_rewards_of_turns_come_with_their_step(monkeypatch):
    from agentgym import Task, registry

    monkeypatch.setitem(registry._registered["environments"], "test/counter-v1", Counter)
    task = Task("count", "test/counter-v1", "Count to 2.", truth=2)
    env = TextEnv([task], reward=TargetReached())
    env.reset(seed=0)
    conversation = [env.step(Hermes().render((Call(name, {}),))) for name in ("add", "refuse", "add", "submit")]
    assert [step[1] for step in conversation] == pytest.approx([0.1, 0.0, 0.1, 1.1])
    assert [step[0] for step in conversation] == ["1", "The counter refuses.", "2", "submitted 2"]
    env.close()


def test_a_reset_leaves_the_running_episode_behind(env):
    for _ in range(3):
        first, _ = env.reset(seed=3)
        solve(env, SET["train"][0], until=1)
        observation, _ = env.reset(seed=3)
        assert first == observation


def test_a_space_takes_every_text():
    space = AnyText(10)
    space.seed(0)
    assert "naïve ☂\n" in space
    assert "x" * 11 not in space
    assert 3 not in space
    assert AnyText().sample() in AnyText()
    assert isinstance(space, gymnasium.spaces.Text)


@pytest.mark.parametrize("copied", [True, False])
def test_environments_in_processes_of_their_own_show_each_text_whole(copied):
    first_call = Hermes().render(SET.oracle(SET["train"][1])([]).calls)
    alone, vector = (
        TextEnv(SET["train"]),
        gymnasium.vector.AsyncVectorEnv([lambda: TextEnv(SET["train"])] * 2, copy=copied),
    )
    try:
        opening, _ = alone.reset(options={"task": 1})
        assert "\n" in opening
        assert list(vector.reset(options={"task": 1})[0]) == [opening, opening]
        texts, *_ = vector.step((first_call, "\u2602 no call"))
        assert list(texts) == [alone.step(first_call)[0], ""]
    finally:
        vector.close()
        alone.close()


def test_a_text_that_does_not_fit_into_shared_memory_is_refused():
    space = AnyText(9)
    memory = create_shared_memory(space, n=2)
    texts = read_from_shared_memory(space, memory, n=2)
    for text in ("", "a\n\ud800b", "\u2602" * 3):
        write_to_shared_memory(space, 1, text, memory)
        assert deepcopy(texts) == ("", text) == (*texts[:1], texts[-1])
    with pytest.raises(ValueError, match=r"An observation of 18 bytes exceeds 16\. Pass"):
        write_to_shared_memory(space, 0, "\u2602" * 6, memory)
