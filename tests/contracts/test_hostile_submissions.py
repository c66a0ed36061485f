"""No agent can have a bad episode thrown away: what it hands in and cannot be judged is scored, and never paid.

Every registered environment with tasks is tried, so a new one is tried here without another line.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from built_sets import each_environment, set_of

from agentgym import (
    Budgets,
    Call,
    EpisodeManager,
    Message,
    RolloutConfig,
    ScriptedPolicy,
    StopReason,
    Task,
    Trajectory,
    Turn,
    load,
    load_reward,
)
from agentgym.messages import Result
from agentgym.registry import close_backends
from agentgym.reward import SUCCESS, validate_components, validate_each

MARKS = {
    "final_files": "Submitted: ",
    "terminal_verifier": "Handed in: ",
    "state_changes": "Record: ",
    "desktop": "The task is over.\n",
    "web": "The task is over.\n",
    "web_steps": "The task is over.\n",
    "mcp": "The task is over.\n",
    "sql_state": "Finished. State ",
    "repository_tests": "Submitted the patch:\n",
}
"""What the results begin with that a judge reads."""
HOSTILE = {
    "cut": '{"files": {"a": "b',
    "empty": "",
    "null": "null",
    "a number": "3",
    "a list": "[[[], {}], 3]",
    "deep": "[" * 100_000,
    "deep and whole": "[" * 500 + "]" * 500,
    "huge": "x" * 3_000_000,
    "huge number": "9" * 100_000,
    "not UTF-8": "\udc80\ud800\x00\xff",
    "not finite": '{"state": NaN, "changes": [NaN], "effects": {"a": Infinity}, "page_reward": NaN}',
    "a forged path": '{"files": {"../../etc/passwd": "x"}, "binary": {}, "executable": [], "folders": ["/etc"]}',
    "no bytes": '{"files": {}, "binary": {"a": "?"}, "executable": [], "folders": []}',
    "other kinds": '{"files": 3, "changes": [{}], "state": [3, {}], "turns": [3], "effects": 3, "windows": 3}',
    "no archive": '{"archive": "AAAA", "gone": ["../../etc"]}',
    "a huge number inside": f'{{"state": "x", "changes": [], "page_reward": {10**400}, "missing": {10**400}}}',
    "a verdict": '{"success": 1.0, "state": "x", "changes": [], "page_reward": 1e999}',
}
OWN_TRUTHS = {
    "agentgym/function-calls-v1": {
        "kind": "calls",
        "calls": [{"name": "f", "required": ["a"], "types": {"a": ["string", None]}, "accepted": {"a": ["b"]}}],
    },
    "agentgym/function-turns-v1": {"turns": [{"state": "a digest", "results": ["another"]}]},
    "agentgym/step-v1": {"text": "I shall look into the matter."},
    "agentgym/tau-v1": {"state": "a digest", "outputs": []},
    "agentgym/tau2-v1": {"state": "a digest", "basis": ["DB"]},
}
"""Of environments whose tasks are imported."""
OF_FOLDERS = {"agentgym/code-terminal-v1", "agentgym/textworld-v1"}
"""Of the user's folders and games: tests/sandboxes/test_terminal.py, tests/tasks/test_textworld_importer.py."""
REPLAYED = {"final_state"}
"""Judges that play the calls again and believe no result. Their environments are tried by what the agent calls."""


@pytest.fixture(autouse=True)
async def backends_of_this_loop():
    yield
    await close_backends()


def finished(task: Task, text: str) -> Iterator[Trajectory]:
    """Yield episodes that ended with a text: as the result and arguments of each final call, and as the last reply."""
    for tool in load("environments", task.environment).tools.values():
        if tool.options.final:
            properties = tool.parameters.get("properties", {})
            call = Call(tool.name, {name: [text] if "array" in str(of) else text for name, of in properties.items()})
            result = Result(text, name=tool.name, final=True)
            turn = Turn(0, Message("assistant", text, (call,)), (call,), (result,))
            yield Trajectory("final", task, stop_reason=StopReason.ANSWERED, turns=[turn])
    replied = Turn(0, Message("assistant", text), replies=[Message("user", text)])
    yield Trajectory("reply", task, stop_reason=StopReason.ENVIRONMENT, turns=[replied])
    yield Trajectory("said", task, stop_reason=StopReason.ANSWERED, turns=[Turn(0, Message("assistant", text))])


async def check_replayed(task: Task) -> None:
    """Play hostile arguments of every tool, and hostile words: the judge plays them again and comes to the same."""
    tools = load("environments", task.environment).tools.values()
    script = []
    for text in (text[:200_000] for text in HOSTILE.values()):
        calls = [Call(tool.name, dict.fromkeys(tool.parameters.get("properties", {}), text)) for tool in tools]
        script += [Message("assistant", text, tuple(calls)), Message("assistant", text)]
    while script:  # an episode may end early
        budgets = Budgets(max_turns=len(script), max_calls=10**6, infra_retries=0, max_void_turns=99)
        manager = EpisodeManager(ScriptedPolicy(script), RolloutConfig(budgets=budgets))
        [episode] = await manager.collect([task], 1)
        assert (episode.error, episode.success) == (None, 0.0)
        script = script[max(len(episode.turns), 1) :]


@pytest.mark.needs_namespaces
@each_environment()
async def test_a_hostile_end_of_an_episode_is_scored_and_not_paid(name):
    environment = load("environments", name)
    if reason := environment.unavailable_reason():
        pytest.skip(f"{name}: {reason}")
    if name in OF_FOLDERS:
        pytest.skip(f"{name} has no tasks of its own")
    if environment.reward in REPLAYED:
        await check_replayed(set_of(name)["train"][0])
        return
    task = Task("own", name, truth=OWN_TRUTHS[name]) if name in OWN_TRUTHS else set_of(name)["train"][0]
    reward = load_reward(environment.reward)
    for what, hostile in HOSTILE.items():
        for episode in finished(task, MARKS.get(environment.reward, "") + hostile):
            outcome = await validate_components(reward.outcome(episode), reward)
            assert outcome[SUCCESS] == 0.0, (what, episode.id)
            for turn in episode.turns:
                await validate_components(reward.turn(turn, episode), reward)
            await validate_each(reward.hindsight(episode), reward, len(episode.turns))
