"""What judges on other nodes spend is charged to the account of the run, which all of them obey."""

from __future__ import annotations

import asyncio
import os
import signal
from importlib.util import find_spec
from pathlib import Path

import pytest
from cluster_sessions import SCRIPT, TASKS, Link, TwoWorkers

from agentgym import Budgets, EpisodeManager, RolloutConfig, ScriptedPolicy
from agentgym.cluster.episode_worker import EpisodeWorker
from agentgym.cluster.ray_engine import RayEngine
from agentgym.errors import JudgeError, PolicyError
from agentgym.evaluation.price import Price
from agentgym.policy.account import SpendingLimit, charged_to, open_account
from agentgym.testing import Counter, FakeClock, TargetReached

PRICE = Price(1e6, 1e6)
needs_ray = pytest.mark.skipif(
    find_spec("ray") is None and not os.environ.get("AGENTGYM_CI_RAY"),
    reason="Ray is not installed: make setup-cluster",
)


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


def test_a_worker_that_joins_after_the_limit_was_spent_sends_nothing():
    """The first judgement spends the limit. Then its worker dies, and another one joins."""
    engine, account = TwoWorkers("a"), SpendingLimit(PRICE.of, 1.0)
    engine.links[0].dies_after, engine.links[0].answers_left = 1, 12
    config = RolloutConfig(
        environment=Counter, reward=PaidJudge(), engine=engine, concurrency=1, budgets=Budgets(infra_retries=0)
    )

    async def scenario():
        asyncio.get_running_loop().call_later(50, lambda: engine.links.append(Link("b", EpisodeWorker())))
        return await EpisodeManager(lambda task: ScriptedPolicy(SCRIPT), config).collect(TASKS)

    with charged_to(account):
        episodes = FakeClock().run(scenario())
    assert [link.began > 0 for link in engine.links] == [True, True]
    assert [episode.valid for episode in episodes].count(True) <= 1
    assert account.spent == 2.0


class PaidPolicy(ScriptedPolicy):
    """A scripted agent whose requests cost 2 each, charged where the driver runs."""

    async def generate(self, request):
        account = open_account()
        account.check()
        account.charge("chat_api:agent", prompt_tokens=1, completion_tokens=1)
        return await super().generate(request)


class DyingJudge(PaidJudge):
    """A paid judge that ends its worker's process right after its first request, and notes each request in a file."""

    def __init__(self, notes: Path) -> None:
        super().__init__()
        self.notes = notes

    async def outcome(self, episode):
        components = await super().outcome(episode)
        is_first = not self.notes.exists()
        with self.notes.open("a") as file:
            file.write("paid\n")
        if is_first:
            os.kill(os.getpid(), signal.SIGKILL)
        return components


async def play_on_ray(cluster, account, **options):
    engine = RayEngine(cluster.address)
    config = RolloutConfig(environment=Counter, engine=engine, budgets=Budgets(infra_retries=0), **options)
    try:
        with charged_to(account):
            return await EpisodeManager(lambda task: PaidPolicy(SCRIPT), config).collect(TASKS)
    finally:
        await engine.close()


@needs_ray
@pytest.mark.together("a cluster of Ray")
@pytest.mark.thorough
def test_on_ray_agents_and_judges_are_charged_to_one_account_which_refuses_both(cluster):
    """An episode costs 2 for each message and 2 for its judgement."""
    each = 2.0 * (len(SCRIPT) + 1)
    account = SpendingLimit(PRICE.of, 100.0)
    episodes = asyncio.run(play_on_ray(cluster, account, reward=PaidJudge(), concurrency=4))
    assert [episode.error for episode in episodes] == [None] * len(TASKS)
    assert account.spent == each * len(TASKS)
    account = SpendingLimit(PRICE.of, 2.5 * each)  # exceeded by the third agent, before its judge asks
    episodes = asyncio.run(play_on_ray(cluster, account, reward=PaidJudge(), concurrency=1))
    assert sum(episode.valid for episode in episodes) == 2
    assert all("more than --max-cost" in episode.error for episode in episodes if not episode.valid)
    assert account.spent == 2.5 * each + 2.0


@needs_ray
@pytest.mark.together("a cluster of Ray")
def test_of_a_worker_that_dies_only_the_requests_it_had_not_reported_are_uncounted(cluster, tmp_path):
    notes, account = tmp_path / "notes", SpendingLimit(PRICE.of, 1000.0)
    episodes = asyncio.run(play_on_ray(cluster, account, reward=DyingJudge(notes), concurrency=1))
    assert [episode.error for episode in episodes] == [None] * len(TASKS)
    judged = len(notes.read_text().split())
    assert judged == len(TASKS) + 1  # the episode whose worker died was played and judged again
    agents = 2.0 * len(SCRIPT) * judged
    assert account.spent == agents + 2.0 * (judged - 1)
