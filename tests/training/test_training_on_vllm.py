"""A recipe with a section [vllm]: the server is started, follows the weights, plays every episode, and ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import lookup_environment
import pytest
from lookup_runs import PUSHED, RECIPE, SMALL, execute, kl_of, start, weights
from processes import process_files
from safetensors.torch import load_file

from agentgym.evaluation.record import Evaluation
from agentgym.policy import make_model, make_tokenizer
from agentgym.policy.checkpoint import save_atomically
from agentgym.storage.ledger import Ledger
from agentgym.storage.run_folder import RunFolder
from agentgym.training import Recipe

PYTHON = os.environ.get("AGENTGYM_VLLM_PYTHON")
pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(not PYTHON, reason="`make test-vllm` installs vLLM in an environment of its own, and runs this"),
]


def recipe(policy: dict) -> Recipe:
    data = json.loads(json.dumps(RECIPE | SMALL))
    data["train"] |= {**PUSHED, "steps": 3}  # the weights move although nothing is earned
    data["policy"] = policy
    data["vllm"] = {"python": PYTHON, "options": ["--max-model-len=512"]}
    return Recipe.parse(data)


@pytest.fixture
def checkpoint(tmp_path) -> Path:
    tokenizer = make_tokenizer(["press the button"], 300)
    save_atomically(make_model(tokenizer, hidden=64, layers=2, heads=2, kv_heads=1), tokenizer, tmp_path / "model")
    return tmp_path / "model"


def assert_the_server_followed_the_weights_and_is_gone(run: Path, updates: str) -> None:
    rows = RunFolder(run).metrics("train")
    assert [row["step"] for row in rows] == [1, 2, 3]
    assert max(row["guard/drift"] for row in rows) < 1e-5
    assert kl_of(run)[1] == 0
    assert Evaluation.load(run / "evaluation" / "after.json").policy.endswith("on vLLM")
    log = (run / "vllm.log").read_text()
    assert log.count(f'POST {updates} HTTP/1.1" 200') >= 4  # three steps and what the last one left
    assert not list(run.glob("vllm_weights*"))
    assert str(run / "vllm_weights") not in _command_lines()


def _command_lines() -> str:
    lines = []
    for path in process_files("cmdline"):
        with suppress(OSError):  # it ended meanwhile
            lines.append(path.read_bytes().decode(errors="replace"))
    return "".join(lines)


def test_the_server_follows_weights_that_are_trained_in_full(tmp_path):
    shape = {"vocabulary": 300, "hidden": 64, "layers": 1, "heads": 2, "kv_heads": 1, "head_dim": 32}
    execute(recipe({"tiny": shape}), tmp_path / "run")
    assert kl_of(tmp_path / "run")[3] > 0
    assert_the_server_followed_the_weights_and_is_gone(tmp_path / "run", "/collective_rpc")


@pytest.mark.parametrize("lora", [None, {"rank": 4, "alpha": 8}], ids=["whole weights", "adapter"])
def test_a_server_plays_in_the_background_while_its_weights_are_trained(tmp_path, checkpoint, lora):
    policy = {"path": str(checkpoint), **({"lora": lora} if lora else {})}
    streamed = recipe(policy)
    streamed = streamed.model_copy(update={"train": streamed.train.model_copy(update={"staleness": 2, "steps": 4})})
    execute(streamed, tmp_path / "run")
    rows = RunFolder(tmp_path / "run").metrics("train")
    assert [row["step"] for row in rows] == [1, 2, 3, 4]
    assert 0 < max(row["async/age_max"] for row in rows) <= 2
    assert all(0 < row["off_policy/effective_sample_size"] <= 1 for row in rows)
    ledger = Ledger(tmp_path / "run" / "ledger.sqlite")
    turns = [turn for trajectory in ledger.trajectories("train-") for turn in trajectory.turns]
    ledger.close()
    assert {turn.policy_version for turn in turns} <= set(range(5))
    assert len({turn.policy_version for turn in turns}) > 1


def test_the_server_and_the_trainer_agree_on_masked_tokens(tmp_path):
    """The drift is between the server's log-probabilities and those that the trainer computes under the same masks."""
    shape = {"vocabulary": 300, "hidden": 64, "layers": 1, "heads": 2, "kv_heads": 1, "head_dim": 32}
    order = {"formula": "press", "ending_tools": ["press"]}
    policy = {"tiny": shape, "logit_hook": "protocol", "logit_hook_options": order}
    execute(recipe(policy), tmp_path / "run")
    assert_the_server_followed_the_weights_and_is_gone(tmp_path / "run", "/collective_rpc")
    ledger = Ledger(tmp_path / "run" / "ledger.sqlite")
    turns = [turn for trajectory in ledger.trajectories("train-") for turn in trajectory.turns]
    ledger.close()
    assert sum(end - begin for turn in turns for begin, end, _ in turn.masks) > 20
    assert all(mask for turn in turns if (mask := turn.masks))


def test_the_server_follows_an_adapter_that_two_processes_train(tmp_path, checkpoint):
    file = tmp_path / "recipe.toml"
    file.write_text(recipe({"path": str(checkpoint), "lora": {"rank": 4, "alpha": 8}}).to_toml())
    done = start(2, file, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert kl_of(tmp_path / "run")[3] > 0
    assert_the_server_followed_the_weights_and_is_gone(tmp_path / "run", "/v1/load_lora_adapter")


@pytest.mark.parametrize(
    ("lora", "estimator"), [(None, "reinforce_pp | entropy_weighted()"), ({"rank": 4, "alpha": 8}, "grpo")]
)
def test_processes_that_share_out_the_weights_end_with_those_of_processes_that_do_not(
    tmp_path, checkpoint, lora, estimator
):
    """The episodes are equal: the server's batches are small, and each request has a seed of its own."""
    data = recipe({"path": str(checkpoint), **({"lora": lora} if lora else {})}).model_dump(exclude_none=True)
    data["train"] |= {
        "estimator": estimator,
        "terms": {"entropy_bonus": {"weight": 1.0}},  # moves the weights although nothing is earned
        "microbatch_tokens": 40,
        "optimiser": {"learning_rate": 0.05},
        "trl": {"optim": "sgd"},  # Adam would make much of the last bit
    }
    runs = tmp_path / "unsharded", tmp_path / "sharded"
    for run, sharding in zip(runs, (None, "fsdp"), strict=True):
        data["machine"]["sharding"] = sharding
        file = run.with_suffix(".toml")
        file.write_text(Recipe.parse({**data}).to_toml())
        done = start(2, file, "--out", run)
        assert done.returncode == 0, done.stderr
    expected, sharded = map(weights, runs)
    assert max(float((expected[name] - sharded[name]).abs().max()) for name in expected) < 1e-6
    # So small a step of an adapter has a KL that float32 cannot tell from 0.
    assert kl_of(runs[1]) == pytest.approx(kl_of(runs[0]), abs=1e-6)
    started_from = load_file(checkpoint / "model.safetensors")
    assert max(float((started_from[name] - sharded[name]).abs().max()) for name in expected) > 1e-4
    assert_the_server_followed_the_weights_and_is_gone(runs[1], "/v1/load_lora_adapter" if lora else "/collective_rpc")


def test_the_server_ends_with_a_run_that_is_killed(tmp_path, checkpoint):
    file = tmp_path / "recipe.toml"
    file.write_text(recipe({"path": str(checkpoint)}).to_toml())
    command = [sys.executable, "-m", "agentgym", "train", str(file), "--out", str(tmp_path / "run")]
    run = subprocess.Popen([*command, "--import", lookup_environment.__file__], stdout=subprocess.DEVNULL)
    log = tmp_path / "run" / "vllm.log"
    _wait_until(lambda: log.exists() and '/collective_rpc HTTP/1.1" 200' in log.read_text())
    run.kill()
    run.wait()
    _wait_until(lambda: str(tmp_path / "run") not in _command_lines())


def _wait_until(condition, timeout_s=300):
    ends = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.2)


def test_a_server_that_does_not_start_is_explained_by_its_log(tmp_path, checkpoint):
    broken = recipe({"path": str(checkpoint)})
    broken = broken.model_copy(update={"vllm": broken.vllm.model_copy(update={"options": ["--no-such-option"]})})
    with pytest.raises(Exception, match=r"(?s)ended with status 2. Its log, .*vllm.log, ends with:.*no-such-option"):
        execute(broken, tmp_path / "run")
