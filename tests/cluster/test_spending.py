"""What judges on other nodes spend is charged to the account of the run, which all of them obey."""

from __future__ import annotations

import asyncio

from cluster_sessions import SCRIPT, TASKS, TwoWorkers

from agentgym import Budgets, EpisodeManager, RolloutConfig, ScriptedPolicy
from agentgym.errors import JudgeError, PolicyError
from agentgym.evaluation.price import Price
from agentgym.policy.account import SpendingLimit, charged_to, open_account
from agentgym.testing import Counter, TargetReached

PRICE = Price(1e6, 1e6)


class PaidJudge(TargetReached):
    """A judge that asks a paid server: 1 for what it reads, 1 for what it writes."""

    async def outcome(self, episode):
        account = open_account()
        try:
            account.check()
        except PolicyError as error:
            raise JudgeError(str(error)) from error
        account.charge("chat_api:judge", prompt_tokens=1, completion_tokens=1)
        return super().outcome(episode)


async def play(account: SpendingLimit, concurrency: int = 1):
    config = RolloutConfig(
        environment=Counter,
        reward=PaidJudge(),
        engine=TwoWorkers(),
        concurrency=concurrency,
        budgets=Budgets(infra_retries=0),
    )
    with charged_to(account):
        return await EpisodeManager(lambda task: ScriptedPolicy(SCRIPT), config).collect(TASKS)


def test_what_judges_on_workers_spend_is_counted_once():
    account = SpendingLimit(PRICE.of, 100.0)
    episodes = asyncio.run(play(account, concurrency=4))
    assert [episode.success for episode in episodes] == [1.0] * 8
    assert account.spent == 16.0
    assert open_account() is None


def test_workers_send_no_more_once_the_run_has_spent_its_limit():
    """Each judgement costs 2: the third exceeds 5. What was spent before the workers began counts too."""
    account = SpendingLimit(PRICE.of, 5.0)
    episodes = asyncio.run(play(account))
    assert sum(episode.valid for episode in episodes) == 3
    assert all("more than --max-cost 5" in episode.error for episode in episodes if not episode.valid)
    assert not any(episode.valid for episode in asyncio.run(play(account)))
    assert account.spent == 6.0
