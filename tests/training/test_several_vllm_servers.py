"""A recipe whose [vllm] names several servers: processes over HTTP, one killed and one stopped while it trains."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path

import pytest
from lookup_runs import PUSHED, RECIPE, SMALL, execute
from vllm_stand_in import vllm_stand_ins

from agentgym.errors import RecipeError
from agentgym.policy.vllm_check import check_vllm
from agentgym.storage.ledger import Ledger
from agentgym.storage.run_folder import RunFolder
from agentgym.training import Recipe


def recipe(urls: object, **vllm: object) -> Recipe:
    data = json.loads(json.dumps(RECIPE | SMALL))
    data["train"] |= {**PUSHED, "steps": 4, "tasks_per_step": 3, "group_size": 4, "kl": 0.0}
    data["vllm"] = {"url": urls, **vllm}
    return Recipe.parse(data)


def requests(log: Path) -> Counter[str]:
    return Counter(line.split()[0] for line in log.read_text().splitlines())


@pytest.mark.thorough
def test_a_killed_and_a_stopped_server_lose_no_episode_double_none_and_train_on_no_failure(tmp_path):
    logs = [tmp_path / name for name in "abc"]
    settings = [
        {"log": str(logs[0])},
        {"log": str(logs[1]), "ends_after": 4, "signal": signal.SIGKILL},
        {"log": str(logs[2]), "ends_after": 9, "signal": signal.SIGSTOP},
    ]
    with vllm_stand_ins(*settings) as urls:
        execute(recipe(urls, deadline_s=5.0), tmp_path / "run")
    ledger = Ledger(tmp_path / "run" / "ledger.sqlite")
    episodes = [t for t in ledger.trajectories("train-") if t.stop_reason is not None]
    ledger.close()
    assert len({t.id for t in episodes}) == len(episodes) == 4 * 3 * 4
    assert [t.error for t in episodes if t.error] == []
    retried = [note for t in episodes for note in t.provenance.retries]
    assert retried  # the stopped server may have been asked for an update of its weights, or for a reply
    # every reply is of the weights that its step began with
    versions = {(t.id.partition("/")[0], turn.policy_version) for t in episodes for turn in t.turns}
    assert len(versions) == 4
    trained = [json.loads(line) for line in (tmp_path / "run" / "credit.jsonl").read_text().splitlines()]
    assert sorted(row["trajectory"] for row in trained) == sorted(t.id for t in episodes)
    assert [row["step"] for row in RunFolder(tmp_path / "run").metrics("train")] == [1, 2, 3, 4]
    healthy, killed, stopped = map(requests, logs)
    assert healthy["/collective_rpc"] >= 5  # what the warm start left, and four steps
    assert 1 <= killed["/collective_rpc"] < 5
    assert 1 <= stopped["/collective_rpc"] < 5
    assert min(log["/v1/completions"] for log in (healthy, killed, stopped)) >= 4


def test_servers_play_in_the_background_and_every_turn_is_of_one_published_version(tmp_path):
    logs = [tmp_path / name for name in "ab"]
    with vllm_stand_ins(*({"log": str(log)} for log in logs)) as urls:
        streamed = recipe(urls)
        train = streamed.train.model_copy(update={"staleness": 2, "save_every": 2})
        execute(streamed.model_copy(update={"train": train}), tmp_path / "run")
    rows = RunFolder(tmp_path / "run").metrics("train")
    assert [row["step"] for row in rows] == [1, 2, 3, 4]
    assert 0 < max(row["async/age_max"] for row in rows) <= 2
    ledger = Ledger(tmp_path / "run" / "ledger.sqlite")
    turns = [turn for t in ledger.trajectories("train-") for turn in t.turns]
    ledger.close()
    assert {turn.policy_version for turn in turns} <= {0, 1, 2, 3, 4}
    assert all(turn.last_version == turn.policy_version for turn in turns)
    trained = [json.loads(line) for line in (tmp_path / "run" / "credit.jsonl").read_text().splitlines()]
    assert len({row["trajectory"] for row in trained}) == len(trained) == 4 * 3 * 4
    for log in map(requests, logs):
        assert log["/collective_rpc"] >= 5
        assert log["/v1/completions"] > 4


def check(recipe: Recipe) -> None:
    check_vllm(recipe.vllm, recipe.policy, recipe.episode.max_episode_tokens)


def test_each_server_is_checked_and_none_may_be_named_twice(tmp_path):
    with vllm_stand_ins({"log": str(tmp_path / "a")}) as [url]:
        check(recipe([url]))
        with pytest.raises(RecipeError, match=r"vllm.url = 'http://127.0.0.1:9': no vLLM server answers"):
            check(recipe([url, "http://127.0.0.1:9"]))
    with pytest.raises(RecipeError, match="url lists 'http://h' twice"):
        recipe(["http://h", "http://h"])
    with pytest.raises(RecipeError, match="url is an empty list"):
        recipe([])
