"""`agentgym/web-wizard-v1`: every kind of field in Chromium, what counts as a step, and how an episode is judged."""

from __future__ import annotations

from dataclasses import replace

import pytest

import agentgym
from agentgym import Budgets, Call, EpisodeManager, RolloutConfig, ScriptedPolicy, Task
from agentgym.messages import ResultStatus, StopReason
from agentgym.registry import load_reward, load_task_set
from agentgym.sandboxes.gui.guest.apps import APPS
from agentgym.sandboxes.gui.judge import TASK_OVER

pytestmark = [
    pytest.mark.needs_namespaces,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("browsers_end"),
]
STEPS = [
    {"label": "City", "kind": kind, "right": "Oslo", "options": ["Lima", "Oslo", "Rome"]}
    for kind in ("text", "choice", "radio")
]
PAGE = "City Oslo: Lima Oslo Rome"
TASK = Task("t", "agentgym/web-wizard-v1", "Go.", parameters={"site": "wizard", "data": {"steps": STEPS}})


async def opened():
    environment = agentgym.make("agentgym/web-wizard-v1")
    [opening] = await environment.reset(TASK, seed=0)
    assert opening.text == f"Go.\n\n{PAGE}"
    return environment


async def enter(environment, value):
    return await environment.call(Call("enter", {"value": value}))


async def test_fields_of_every_kind_are_filled_in_and_results_do_not_tell_right_from_wrong():
    environment = await opened()
    potentials = []
    for value, page in (
        ("Oslo", PAGE),
        ("Rome", PAGE),
        ("Oslo", f'{TASK_OVER}{{"effects": {{"1": "Oslo", "2": "Rome"'),
    ):
        assert (await enter(environment, value)).content.startswith(page)
        potentials.append(await environment.potential())
    assert potentials == pytest.approx([1 / 3, 1 / 3, 2 / 3])
    assert environment.ended
    await environment.close()


async def test_a_value_that_the_page_does_not_offer_is_an_error_that_shows_the_page_again_and_takes_no_step():
    environment = await opened()
    for value in ("Oslo", "Oslo", "Oslo"):
        for wrong in ("Bern", "", "2", "x" * 3_000, "Next", "Value"):
            result = await enter(environment, wrong)
            assert (result.status, result.content) == (ResultStatus.TOOL_ERROR, f"No such value.\n{PAGE}"), wrong
        assert (await enter(environment, value)).ok
    assert await environment.potential() == 1.0
    late_result = await enter(environment, "Oslo")
    assert late_result.status is ResultStatus.TOOL_ERROR
    await environment.close()


async def test_a_checkpoint_is_restored_with_the_steps_that_were_taken():
    environment, copy = await opened(), agentgym.make("agentgym/web-wizard-v1")
    for value in ("Lima", "Bern", "Oslo"):
        await enter(environment, value)
    await copy.restore(TASK, await environment.checkpoint(), seed=0)
    assert await copy.state_key() == await environment.state_key()
    assert await copy.potential() == await environment.potential() == pytest.approx(1 / 3)
    assert (await enter(copy, "Oslo")).content == (await enter(environment, "Oslo")).content
    await copy.close()
    await environment.close()


async def test_the_oracle_needs_as_many_turns_as_the_horizon_and_a_cut_episode_is_judged_by_what_it_entered():
    task_set = load_task_set("web/long-form-v1")
    tasks = [
        next(task for task in task_set[split] if tag in task.tags)
        for split, tag in (("train", "horizon_4"), ("held_out", "unseen_instances"), ("held_out", "horizon_3"))
    ]
    episodes = await EpisodeManager(lambda task: ScriptedPolicy(task_set.oracle(task))).collect(tasks)
    assert [episode.outcome for episode in episodes] == [{"success": 1.0, "progress": 1.0}] * 3
    assert [len(episode.turns) for episode in episodes] == [4, 2, 3]
    assert {episode.stop_reason for episode in episodes} == {StopReason.ENVIRONMENT}
    [cut] = await EpisodeManager(
        ScriptedPolicy(task_set.oracle(tasks[0])), RolloutConfig(budgets=Budgets(max_turns=3))
    ).collect(tasks[:1])
    assert cut.outcome == {"success": 0.0, "progress": 0.75}
    wrong = replace(tasks[0], truth={"effects": {str(number): "Oslo?" for number in range(1, 5)}})
    assert load_reward("web_steps").outcome(replace(episodes[0], task=wrong)) == {"success": 0.0, "progress": 0.0}


async def test_a_form_that_is_sent_twice_or_for_another_step_counts_once():
    wizard = APPS["wizard"]({"steps": STEPS})
    for form in ({"step": "0", "value": "Oslo"}, {"step": "0", "value": "Rome"}, {"step": "2", "value": "Rome"}):
        wizard.post_next(form)
    assert wizard.effects() == {"1": "Oslo"}
    assert wizard.steps() == (1, 1, 3)
