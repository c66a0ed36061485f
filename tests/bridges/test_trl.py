"""What TRL's own trainers take of ours: exported rows, and environments for its GRPOTrainer."""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path

import pytest
import trl
from datasets import concatenate_datasets, load_dataset
from transformers.utils import get_json_schema
from trl import DPOConfig, DPOTrainer, GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer
from typer.testing import CliRunner

from agentgym import Call, EpisodeManager, Message, RolloutConfig, ScriptedPolicy, load_task_set
from agentgym.bridges.trl import TrlEnvironments
from agentgym.cli.app import app
from agentgym.errors import AgentGymError, TaskError
from agentgym.policy.tiny import make_model, make_tokenizer
from agentgym.registry import make
from agentgym.storage.ledger import Ledger
from agentgym.storage.run_folder import RunFolder

# TRL's own defaults use what transformers has deprecated
pytestmark = pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")
SET = "text/number-guess-v1"
NOT_SHOWN = {"report_to": "none", "use_cpu": True, "disable_tqdm": True, "bf16": False, "save_strategy": "no"}


@pytest.fixture(scope="module")
def tokenizer():
    """With the template of Qwen3: TRL reads calls only in templates that it knows."""
    template = Path(trl.__file__).with_name("chat_templates") / "qwen3.jinja"
    call = '<think>\n\n</think>\n\n<tool_call>\n{"name": "guess", "arguments": {"number": 12}}\n</tool_call>'
    schema = [tool.schema() for tool in make("agentgym/text-number-guess-v1").tools.values()]
    texts = [call, json.dumps(schema), "Find my number from 1 to 99 in 5 guesses. higher, 4 left"]
    tokenizer = make_tokenizer([template.read_text(), *texts * 9], 900)
    tokenizer.chat_template = template.read_text()
    return tokenizer


def tiny(tokenizer):
    return make_model(tokenizer, seed=0, hidden=32, layers=1, heads=2, kv_heads=1)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Of each task an episode of the oracle, one that only guesses 1, one with a malformed call, and words alone."""
    folder = RunFolder(tmp_path_factory.mktemp("trl") / "run").create()
    ledger, task_set = Ledger(folder.ledger), load_task_set(SET)
    players = {
        "oracle": lambda task: ScriptedPolicy(task_set.oracle(task)),
        "low": lambda task: ScriptedPolicy([Message("assistant", "", (Call("guess", {"number": 1}),))] * 9),
        "broken": lambda task: ScriptedPolicy([Message("assistant", "", (Call("", {}, error="no call"),))] * 9),
        "words": lambda task: ScriptedPolicy([Message("assistant", "I do not know.")]),
    }
    for name, player in players.items():
        manager = EpisodeManager(player, RolloutConfig(), ledger=ledger, label=name)
        asyncio.run(manager.collect([*task_set["train"][:4], *task_set["held_out"][:2]]))
    ledger.close()
    return folder.path


def exported(run, tmp_path, kind, *options):
    target = tmp_path / f"{kind}.parquet"
    done = CliRunner().invoke(app, ["export", str(run), "--format", kind, "--out", str(target), *options])
    assert done.exit_code == 0, done.output
    return load_dataset("parquet", data_files=str(target), split="train", cache_dir=str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def environments():
    factory = TrlEnvironments(SET)
    yield factory
    factory.close()


@pytest.fixture(scope="module")
def imitator(run, tmp_path_factory, tokenizer, environments):
    """TRL's trainer, trained on the exported episode of one task, with our schema of the tool and with TRL's."""
    folder = tmp_path_factory.mktemp("sft")
    row = exported(run, folder, "sft").select([0])
    tools = json.dumps([get_json_schema(environments().guess)])
    rows = concatenate_datasets([row, row.map(lambda _: {"tools": tools})])
    options = {"per_device_train_batch_size": 2, "learning_rate": 1e-2, "lr_scheduler_type": "constant"}
    trainer = SFTTrainer(
        tiny(tokenizer),
        args=SFTConfig(str(folder / "out"), max_steps=100, logging_steps=10, **options, **NOT_SHOWN),
        train_dataset=rows,
        processing_class=tokenizer,
    )
    trainer.train()
    return trainer


def test_sft_rows_are_trained_on_by_trls_trainer(run, tmp_path, tokenizer, imitator):
    rows = exported(run, tmp_path, "sft")
    assert sorted(rows["task"]) == [f"train/000{n}" for n in range(4)], "the oracle's, of training tasks alone"
    calls = [call for message in rows[0]["messages"] for call in message["tool_calls"] or ()]
    assert isinstance(calls[0]["function"]["arguments"]["number"], int)
    assert len(exported(run, tmp_path, "sft(unsuccessful=True)", "--list", "low")) == 4
    text = tokenizer.decode(imitator.train_dataset[0]["input_ids"])
    assert "<tool_call>" in text
    assert "Guess the number." in text, "the tools are in the prompt"
    losses = [row["loss"] for row in imitator.state.log_history if "loss" in row]
    assert losses[-1] < 0.5 < losses[0]


def test_preference_pairs_are_trained_on_by_trls_trainer(run, tmp_path, tokenizer):
    rows = exported(run, tmp_path, "preference(max_pairs=1)")
    assert len(rows) == 4
    for row in rows:
        assert row["score_chosen"] == 1.0 > row["score_rejected"]
        assert [message["role"] for message in row["prompt"]] == ["user"]
        assert row["chosen"][0]["role"] == row["rejected"][0]["role"] == "assistant"
        assert row["chosen"][-1]["content"] != row["rejected"][-1]["content"]
    trainer = DPOTrainer(
        tiny(tokenizer),
        tiny(tokenizer),
        args=DPOConfig(str(tmp_path / "out"), max_steps=1, per_device_train_batch_size=2, **NOT_SHOWN),
        train_dataset=rows,
        processing_class=tokenizer,
    )
    assert math.isfinite(trainer.train().training_loss)


def test_nothing_to_export_is_said(run, tmp_path):
    target = str(tmp_path / "x.parquet")
    for kind, words in (("sft", "No episode of a training task has solved it"), ("preference", "No two episodes")):
        command = ["export", str(run), "--format", kind, "--list", "words", "--out", target]
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 2
        assert words in done.output


def test_an_environment_of_trl_is_an_episode_of_ours(environments):
    environment, task = environments(), load_task_set(SET)["train"][0]
    assert environment.reset(**environments.dataset()[0]) is None
    assert environment.guess(number=1) == "higher, 4 left"
    assert "argument 'number'" in environment.guess(number="x")
    environment.guess(number=task.truth["secret"])
    assert "The episode is over" in environment.guess(number=2)
    assert environment.get_reward() == 1.0
    environment.reset(**environments.dataset()[1])
    environment.guess(number=1)
    assert environment.get_reward() == 0.0
    with pytest.raises(AgentGymError, match="Call reset first"):
        environment.get_reward()
    with pytest.raises(TaskError, match="There is no task 'x'"):
        environment.reset(task="x")


def test_tasks_that_trl_cannot_be_given_are_refused():
    several = [load_task_set(name)["train"][0] for name in (SET, "text/wordle-v1")]
    with pytest.raises(TaskError, match="to 2 environments"):
        TrlEnvironments(several)


def test_trls_trainer_trains_in_our_environments(environments, tmp_path, tokenizer, imitator):
    """The model has learnt to win one task; what its calls earn is what the trainer logs."""
    task = environments.dataset()[0]["task"]
    trainer = GRPOTrainer(
        imitator.model,
        args=GRPOConfig(
            str(tmp_path / "out"),
            max_steps=2,
            per_device_train_batch_size=2,
            num_generations=2,
            max_completion_length=200,
            temperature=0.1,
            logging_steps=1,
            **NOT_SHOWN,
        ),
        train_dataset=environments.dataset().filter(lambda row: row["task"] == task),
        processing_class=tokenizer,
        environment_factory=environments,
    )
    trainer.train()
    log = [row for row in trainer.state.log_history if "rewards/AgentgymEnvironment/mean" in row]
    assert [row["rewards/AgentgymEnvironment/mean"] for row in log] == [1.0, 1.0]
    assert log[0]["tools/call_frequency"] > 1
    assert log[0]["tools/failure_frequency"] == 0
