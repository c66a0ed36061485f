"""Whoever asks a policy, the episode loop or a judge, waits for a bounded time and spends a bounded sum."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from model_server import serving
from source_tree import source_files, syntax_tree, walk
from typer.testing import CliRunner

from agentgym import Policy
from agentgym.bridges.chat_api import ChatApiPolicy
from agentgym.cli.app import app
from agentgym.errors import LedgerError, PolicyError
from agentgym.evaluation.price import Price
from agentgym.messages import Message
from agentgym.policy import Request
from agentgym.policy.account import SpendingLimit, charged_to, open_account
from agentgym.sandboxes.search.reading import PolicyReader
from agentgym.testing import FakeClock

WRAPPERS = {"agentgym/policy/pool.py", "agentgym/policy/contract.py", "agentgym/rollout/replay.py"}
"""Policies that pass a request on to another: whoever asked them waits for a bounded time."""
HAS_A_CLOCK = {"agentgym/rollout/play_loop.py"}
"""The play loop limits a reply by the clock of its episode, which stands still meanwhile."""


class Hanging(Policy):
    """Never answers."""

    name = "hanging"

    async def generate(self, request):
        await asyncio.sleep(1e9)


def test_a_policy_that_hangs_is_waited_for_no_longer_than_was_said():
    clock = FakeClock()
    with pytest.raises(PolicyError, match=r"'hanging' gave no reply within 70 s\. If it hangs, restart it"):
        clock.run(Hanging().generate_in_time(Request(()), 70))
    assert clock.now == pytest.approx(70)


def test_a_reader_that_hangs_ends_in_an_hour():
    clock = FakeClock()
    with pytest.raises(PolicyError, match="gave no reply within 3600 s"):
        clock.run(PolicyReader(Hanging()).read("title", "text", "question"))
    assert clock.now == pytest.approx(3600)


def calls_of_generate(path: Path) -> Iterator[str]:
    """Name the lines of a file that wait for `….generate(request)` outside of a policy's own `generate`."""
    tree = syntax_tree(path)
    own = {
        id(node)
        for part in walk(tree)
        if isinstance(part, ast.AsyncFunctionDef) and part.name == "generate"
        for node in ast.walk(part)
    }
    for node in walk(tree):
        if isinstance(node, ast.Await) and isinstance(node.value, ast.Call) and id(node) not in own:
            function = node.value.func
            if isinstance(function, ast.Attribute) and function.attr == "generate":
                yield f"{path}:{node.lineno}"


@pytest.mark.together("the source tree")
def test_every_policy_is_asked_by_generate_in_time():
    """Of the code that is shipped; a wrapper's own `generate` passes the request on."""
    shipped = [path for path in source_files() if path.parts[0] not in ("tests", "benchmarks", "testing")]
    unbounded = [
        line for path in shipped if str(path) not in WRAPPERS | HAS_A_CLOCK for line in calls_of_generate(path)
    ]
    assert unbounded == []


def test_paid_requests_beyond_the_limit_are_refused_whoever_asks():
    """A request costs 1000 * 2 / 1e6 + 100 * 5 / 1e6 = 0.0025."""
    account = SpendingLimit(Price(2, 5).of, 0.004)
    with charged_to(account):
        assert open_account() is account
        for _ in range(2):
            account.check()
            account.charge("chat_api:m", prompt_tokens=1000, completion_tokens=100)
        with pytest.raises(PolicyError, match=r"have cost 0\.005, more than --max-cost 0\.004: no more are sent"):
            account.check()
    assert open_account() is None
    with pytest.raises(PolicyError, match="chat_api:m does not report how many tokens"):
        account.charge("chat_api:m", prompt_tokens=0, completion_tokens=0)


async def test_a_paid_server_is_asked_no_more_once_the_limit_is_exceeded():
    choice = {"message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}
    answer = {"choices": [choice], "usage": {"prompt_tokens": 1000, "completion_tokens": 100}}
    with serving(answer) as server, charged_to(SpendingLimit(Price(2, 5).of, 0.002)):
        policy = ChatApiPolicy(server.url + "/v1", "m")
        await policy.generate(Request([Message("user", "Right?")]))
        with pytest.raises(PolicyError, match="more than --max-cost"):
            await policy.generate(Request([Message("user", "Right?")]))
        await policy.close()
        assert len(server.requests) == 1


def test_a_rollout_stops_at_its_limit(tmp_path):
    message = {"role": "assistant", "content": "7", "tool_calls": []}
    choice = {"message": message, "finish_reason": "stop"}
    answer = {"choices": [choice], "usage": {"prompt_tokens": 1000, "completion_tokens": 100}}
    with serving(answer) as server:
        words = ["rollout", "sql/store-v1:train", "--policy", f"chat_api:{server.url}/v1#m", "--limit", "8"]
        words += ["--concurrency", "1", "--price", "2,5", "--max-cost", "0.004"]
        stopped = CliRunner().invoke(app, words)
    assert stopped.exit_code == 2, stopped.output
    assert "of 8 episodes: they cost 0.0" in stopped.output
    assert "more than --max-cost 0.004" in stopped.output


def test_train_refuses_a_limit_without_a_price_before_anything_is_loaded():
    refused = CliRunner().invoke(app, ["train", "quickstart", "--max-cost", "1"])
    assert (refused.exit_code, "--max-cost needs --price IN,OUT" in refused.output) == (2, True)


def test_an_interrupted_training_says_how_to_go_on_under_the_same_limit(monkeypatch, tmp_path):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("agentgym.training.train", interrupted)
    words = ["train", "quickstart", "--price", "2,5", "--max-cost", "7.5", "--out", str(tmp_path / "run")]
    ended = CliRunner().invoke(app, words)
    assert "--price 2,5 --max-cost 7.5 --out" in ended.output.replace("\n", " ")


def test_a_resumed_run_counts_what_it_spent_before(tmp_path):
    """A request costs 1000 * 2 / 1e6 + 100 * 5 / 1e6 = 0.0025, also at the price of a later start."""
    file = tmp_path / "spending.json"
    first = SpendingLimit(Price(2, 5).of, 0.004, file)
    assert not file.exists()
    first.charge("chat_api:m", prompt_tokens=1000, completion_tokens=100)
    resumed = SpendingLimit(Price(2, 5).of, 0.004, file)
    assert resumed.spent == pytest.approx(0.0025)
    resumed.charge("chat_api:m", prompt_tokens=1000, completion_tokens=100)
    with pytest.raises(PolicyError, match=r"have cost 0\.005, more than"):
        SpendingLimit(Price(2, 5).of, 0.004, file).check()
    assert SpendingLimit(Price(4, 10).of, 1.0, file).spent == pytest.approx(0.01)
    file.write_text("[]")
    with pytest.raises(LedgerError, match=r"spending\.json does not hold what the run has spent"):
        SpendingLimit(Price(2, 5).of, 0.004, file)


def test_a_training_charges_the_account_of_its_folder(monkeypatch, tmp_path):
    spent = []

    def trained(*_, folder, **__):
        (folder / "recipe.toml").touch()
        account = open_account()
        account.charge("chat_api:m", prompt_tokens=1_000_000, completion_tokens=0)
        spent.append(account.spent)

    monkeypatch.setattr("agentgym.training.train", trained)
    words = ["train", "quickstart", "--price", "2,5", "--max-cost", "7.5", "--out", str(tmp_path)]
    for more in ([], ["--resume"]):
        result = CliRunner().invoke(app, words + more)
        assert result.exit_code == 0, result.output
    assert spent == [2.0, 4.0]
