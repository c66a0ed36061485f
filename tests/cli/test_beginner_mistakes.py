"""Mistakes of a beginner: each ends with one message that names the thing, the value and what to do.

`test_bad_input.py` and `test_ten_mistakes.py` make others: misspelt names, bugs in tools, servers that are away.
"""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentgym import AgentGymError, Environment, Task, TaskSet, load_reward, make, register, tool
from agentgym.cli.app import app

HERE = Path(__file__).parent
RECIPE = HERE.parents[1] / "recipes" / "quickstart.toml"
REWARD = """
from agentgym import Reward, register

class Mine(Reward):
    "A reward."
    def outcome(self, episode):
        return {answer}

register("mistakes_{name}", Mine, kind="rewards")
"""
REWARDS = {
    "nan": '{"success": float("nan")}',
    "text": '{"success": "yes"}',
    "number": "1.0",
    "percent": '{"success": 80}',
}
CONFIG = {"model_type": "qwen2", "hidden_size": 8, "num_attention_heads": 1, "num_hidden_layers": 1, "vocab_size": 8}


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    """A folder with a beginner's files, which is the working directory."""
    path, before = tmp_path_factory.mktemp("mistakes"), Path.cwd()
    os.chdir(path)
    recipe = RECIPE.read_text(encoding="utf-8")
    row = {"id": "t", "environment": "beginner/right-v1", "prompt": "Why?", "split": "held_out"}
    lines = {
        "broken": f'{json.dumps(row)}\n{{"id": "u", ',
        "twice": f"{json.dumps(row)}\n{json.dumps(row)}\n",
        "split": json.dumps(row | {"split": "test"}),
        "field": json.dumps(row | {"promt": "Why?"}),
        "nowhere": json.dumps(row | {"environment": "acme/nowhere-v1"}),
        "array": json.dumps([row]),
        "empty": "",
    }
    for name, text in lines.items():
        (path / f"{name}.jsonl").write_text(text)
    (path / "windows.jsonl").write_bytes(b"\xef\xbb\xbf" + json.dumps(row).encode() + b"\r\n")
    (path / "utf16.jsonl").write_text(json.dumps(row), encoding="utf-16")
    (path / "rows.csv").write_text("question,answer\nWhy?,1\n")
    (path / "recipe.toml").write_text(recipe)
    (path / "utf16.toml").write_text(recipe, encoding="utf-16")
    (path / "yaml.toml").write_text("name: mine\n")
    (path / "empty.toml").write_text("")
    (path / "broken.json").write_text('{"a": ')
    for name in ("notes", "folder.jsonl", "model"):
        (path / name).mkdir()
    (path / "notes" / "list.txt").write_text("milk")
    (path / "model" / "config.json").write_text(json.dumps(CONFIG))
    (path / "old").mkdir()
    (path / "old" / "recipe.toml").write_text(recipe)
    for name, answer in REWARDS.items():
        (path / f"reward_{name}.py").write_text(REWARD.format(name=name, answer=answer))
    (path / "untyped.py").write_text(
        "from agentgym import Environment, tool\nclass Untyped(Environment):\n    'A shop.'\n    @tool\n"
        "    def look(self, shelf):\n        'Look.'\n"
    )
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        (path / "port").write_text(str(taken.getsockname()[1]))
        yield path
    os.chdir(before)


BEGINNER = f"--import {HERE / 'beginner.py'}"
EVAL = f"eval beginner/right-set-v1 {BEGINNER} --policy"
ORACLE = f"{EVAL} oracle"
TRAIN = "train recipe.toml --set"
FILES = [
    ("a broken line", "tasks show broken.jsonl", "broken.jsonl, line 2: not valid JSON", "one JSON object a line"),
    ("an id that occurs twice", "tasks show twice.jsonl", "line 2: the id 't' is already used in line 1"),
    ("a split of another library", "tasks show split.jsonl", "no split 'test'. Choose one of train, validation"),
    ("a field that does not exist", "tasks show field.jsonl", "unknown field ['promt']. The fields of a task are"),
    ("an environment that is not registered", "eval nowhere.jsonl --policy oracle", "'acme/nowhere-v1'", "list env"),
    ("a JSON array", "tasks show array.jsonl", "line 1: expected a JSON object, found list. Write one object a line"),
    ("an empty file", "tasks show empty.jsonl", "empty.jsonl has no tasks. Write each line as one JSON object"),
    ("a UTF-16 file", "tasks show utf16.jsonl", "utf16.jsonl is not UTF-8 text", "Save it as UTF-8."),
    ("a CSV file", "tasks show rows.csv", "rows.csv, line 1: not valid JSON", "tasks import rows` reads a table"),
    ("a folder in place of a file", "tasks show folder.jsonl", "folder.jsonl: Is a directory. Check the path."),
    ("a file that is not there", "eval gone.jsonl --policy oracle", "task file gone.jsonl: No such file"),
    ("a recipe in UTF-16", "train utf16.toml", "utf16.toml is not UTF-8 text", "Save it as UTF-8."),
    ("a recipe in YAML", "train yaml.toml", "yaml.toml is not valid TOML", "The line is: 'name: mine'"),
    ("an empty recipe", "train empty.toml", "the key 'name' is missing (name: The name of the run.)"),
    ("a run in place of its recipe", "train old", "old: it is a folder. Did you mean old/recipe.toml?"),
    ("a folder in place of a recipe", "train notes", "notes: it is a folder. Give the file of a recipe."),
    ("rows without a target", "tasks import rows rows.csv --out x.jsonl", "environment of these rows is missing. Give"),
    (
        "a task set written as CSV",
        "tasks import rows rows.csv --out x.csv --prompt question",
        "--out x.csv is not valid",
    ),
    ("importing code by its path", f"{ORACLE} --import ./beginner", "--import ./beginner is not a module. Give its"),
    ("importing a folder", f"{ORACLE} --import notes", "--import notes: this folder has no __init__.py. Give one of"),
    ("a tool without type hints", "list rewards --import untyped.py", "no type hint for 'shelf'", "`shelf: str`"),
]
VALUES = [
    ("an empty split", f"{ORACLE} --tasks beginner/right-set-v1:validation", "given twice"),
    (
        "a split without tasks",
        f"rollout beginner/right-set-v1:validation {BEGINNER}",
        "no tasks in 'validation'",
        "train 3",
    ),
    ("a task number that is too large", f"play beginner/right-v1 {BEGINNER} --index 99", "--index 99", "give 0 to 2"),
    ("a task id that does not exist", f"play beginner/right-v1 {BEGINNER} --task x", "has no task 'x'. It has 3 tasks"),
    ("parameters that are not JSON", f"play beginner/right-v1 {BEGINNER} --prompt x --parameters {{a:1}}", "'{a:1}'"),
    ("a negative limit", f"{ORACLE} --limit -3", "'--limit'", "greater than or equal to 1"),
    ("no episode of a task", f"{ORACLE} --group-size 0", "group_size is 0", "greater than 0"),
    ("a negative temperature", f"{ORACLE} --temperature -1", "'--temperature'", "greater than or equal to 0"),
    ("a percentage for a share", f"{ORACLE} --top-p 95", "'--top-p'", "less than or equal to 1"),
    ("a budget without a price", f"{ORACLE} --max-cost 1", "--max-cost needs --price IN,OUT"),
    ("a price in words", f"{ORACLE} --price cheap", "--price 'cheap' is not valid: give two numbers"),
    ("a choice among one", f"{ORACLE} --choose majority", "each is played once. Give --group-size 8"),
    ("an unknown search", f"{ORACLE} --search bfs", "Nothing in searches is named 'bfs'", "beam, best_first, mcts"),
    ("a page without a folder", f"{ORACLE} --html", "--html needs --out DIR"),
    ("a record in place of a folder", f"{ORACLE} --out broken.json", "broken.json is a file, not a run folder. Name a"),
    ("a folder in place of a record", f"{ORACLE} --json notes", "Cannot write notes: Is a directory. Name another"),
    (
        "an earlier evaluation that is gone",
        f"{ORACLE} --against gone.json",
        "gone.json: No such file",
        "eval` wrote by",
    ),
    (
        "a broken earlier evaluation",
        f"{ORACLE} --against broken.json",
        "Cannot read the evaluation broken.json",
        "Give",
    ),
    ("no policy", "eval beginner/right-set-v1", "Missing option '--policy'"),
    ("no tasks", "eval --policy oracle", "No tasks were given. Name a task set"),
    (
        "a folder without a model",
        f"{EVAL} notes",
        "notes has no checkpoint",
        "Give a folder that save_pretrained wrote",
    ),
    ("a model of an API without its server", f"{EVAL} gpt-4o", "--policy 'gpt-4o'", "chat_api:URL#model"),
    ("a server without its model", f"{EVAL} chat_api:http://127.0.0.1:9/v1", "argument: 'model'", "chat_api:URL#model"),
    ("a server without http", f"{EVAL} chat_api:localhost:8000#m", "'localhost:8000' is not the URL", "http://"),
    (
        "a key that is not set",
        f"{EVAL} chat_api:http://127.0.0.1:9/v1#m --api-key-env NONE_42",
        "NONE_42 is empty. Store",
    ),
    ("a key for no server", f"{ORACLE} --api-key-env NONE_42", "--api-key-env NONE_42 cannot be used", "Leave it out"),
    ("an option of another policy", f"{ORACLE} --policy-option stream=1", "the policy 'oracle' has no options"),
    ("a gain above what is possible", "power --rate 99 --gain 3", "3 points on a success rate of 99 %", "0 and 100 %"),
    ("a percentage for a probability", "power --power 80", "power = 80.0 is not valid", "for example 0.8"),
    ("limits that do not exist", "--accept-weaker most list", "named 'most'. The names are wall, memory"),
    ("negative memory", "sandbox shell --memory -1 -c ls", "memory_mib = -1 is not valid: a limit must be above 0"),
]
RECIPES = [
    ("a text for a number", f"{TRAIN} train.steps=many", "train.steps = 'many'", "valid integer"),
    ("half a step", f"{TRAIN} train.steps=1.5", "train.steps = 1.5", "fractional part"),
    ("a negative number", f"{TRAIN} train.steps=-1", "train.steps = -1", "greater than or equal to 0"),
    ("a key without a value", f"{TRAIN} train.steps", "--set 'train.steps' cannot be read: write key=value"),
    ("a value for a section", f"{TRAIN} train=3", "train = 3", "(train: The reinforcement.)"),
    ("a misspelt section", f"{TRAIN} trian.steps=3", "no key 'trian'. Did you mean 'train'?"),
    ("a misspelt estimator", f"{TRAIN} train.estimator=grppo", "named 'grppo'. Did you mean 'grpo'?"),
    ("a misspelt task set", f"{TRAIN} tasks.set=sql/stroe-v1", "Did you mean 'sql/store-v1'?"),
    ("a misspelt backend", f"{TRAIN} episode.backend=dockr", "'dockr' cannot be used", "Did you mean 'docker'?"),
    ("a percentage in a recipe", f"{TRAIN} warm_start.imperfect_oracle=50", "imperfect_oracle = 50", "less than 1"),
    ("a negative learning rate", f"{TRAIN} train.optimiser.learning_rate=-1", "learning_rate = -1", "greater than 0"),
    ("a model and a tiny one", f"{TRAIN} policy.path=qwen", "policy.path = 'qwen' and [policy.tiny] are both given"),
    ("a group of one", f"{TRAIN} train.group_size=1 --set train.estimator=grpo", "train.group_size = 1", "Raise it"),
    ("a tag of no task", f"{TRAIN} evaluate.stratum=new", "evaluate.stratum = 'new'", "Tags: "),
    ("a device that does not exist", f"{TRAIN} machine.device=gpu", "device = 'gpu' cannot be used", "Write cpu"),
    (
        "a folder of something else",
        "train recipe.toml --out notes",
        "notes is not a run folder",
        "or an empty or new one",
    ),
    ("running twice in a folder", "train recipe.toml --out old", "old", "--resume"),
    ("going on with another recipe", f"{TRAIN} seed=7 --out old --resume", "old", "seed"),
]
RUNS = [
    (
        "showing a folder that is not a run",
        "show notes",
        "notes is not a run folder: it contains list.txt",
        "Name a run",
    ),
    ("a report of no run", "report notes", "notes is not a run folder"),
    ("exporting no run", "export notes --out x.parquet", "notes is not a run folder"),
    ("viewing a missing folder", "view gone --no-open", "There is no folder gone. Name a run folder"),
    ("comparing one agent", "compare broken.json", "broken.json"),
    (
        "comparing a file that is not an evaluation",
        "compare broken.json broken.json",
        "evaluation broken.json",
        "Give a file that",
    ),
    ("writing over a recipe", "recipes quickstart --out recipe.toml", "recipe.toml exists. Remove it, or name another"),
    ("a package without a namespace", "new environment Shop", "'Shop' cannot name an environment. Write namespace/"),
    ("a package over other files", "new environment a/shop --out notes", "notes must be a new or empty folder"),
    ("publishing a folder without a package", "publish notes", "notes/pyproject.toml does not exist. Give the folder"),
    ("publishing a file", "publish broken.json", "broken.json/pyproject.toml does not exist. Give the folder"),
    ("checking a task set as environment", f"check beginner/right-set-v1 {BEGINNER}", "mean 'beginner/right-v1'?"),
    (
        "checking with a set that is not there",
        f"check beginner/right-v1 {BEGINNER} --task-set a/b-v1",
        "named 'a/b-v1'",
    ),
    ("importing data that is not there", "tasks import mbpp gone.jsonl --out x.jsonl", "no file or folder gone.jsonl"),
    ("pushing what is not there", "push gone elsewhere", "gone"),
    (
        "serving without a token",
        f"serve environments beginner/right-v1 {BEGINNER}",
        "must have a token",
        "--token-file",
    ),
]


def run(command):
    environment = {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb", "AGENTGYM_ENVIRONMENT_TOKEN": ""}
    return CliRunner().invoke(app, command.split(), env=environment)


@pytest.mark.parametrize(
    ("command", "words"), [pytest.param(row[1], row[2:], id=row[0]) for row in (*FILES, *VALUES, *RECIPES, *RUNS)]
)
def test_a_mistake_is_one_message_with_what_to_do(command, words):
    finished = run(command)
    assert finished.exit_code == 2, finished.output
    assert isinstance(finished.exception, SystemExit)
    assert "Traceback" not in finished.output
    assert finished.stderr.count("Error: ") == 1
    message = finished.stderr.partition("Error: ")[2]
    assert [word for word in words if word not in message] == [], message


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nan", "returned nan for the component 'success', but a reward must be a finite number"),
        ("text", "returned 'yes' for the component 'success', but a reward must be a finite number"),
        ("number", "returned 1.0, but a reward must return a dict of components by name"),
        ("percent", "returned 80 for the component 'success', which must be from 0 to 1"),
    ],
)
def test_a_reward_that_is_not_a_share_fails_each_episode_by_one_cause(name, words):
    finished = run(f"{ORACLE} --reward mistakes_{name} --import reward_{name}.py")
    assert finished.exit_code == 1
    assert finished.stdout.count(words) == 1
    assert f"reward_{name}.py:" in finished.stdout
    assert "Traceback" not in finished.output


def test_a_file_with_windows_line_ends_and_a_byte_order_mark_is_read():
    finished = run(f"eval windows.jsonl --policy notes {BEGINNER}")
    assert "notes has no checkpoint" in finished.stderr


def test_a_model_without_weights_or_tokenizer_is_named():
    finished = run(f"{EVAL} model")
    assert finished.exit_code == 2
    assert "No model can be loaded from 'model'" in finished.stderr
    assert "Give a folder written by save_pretrained (config.json, weights, tokenizer)" in finished.stderr


def test_a_port_in_use_is_named():
    port = Path("port").read_text()
    finished = run(f"view old --no-open --port {port}")
    assert finished.exit_code == 2
    assert port in finished.stderr
    assert "Traceback" not in finished.output


def untyped():
    class Shop(Environment):
        """A shop."""

        @tool
        def look(self, shelf):
            """Look."""

    return Shop()


TASK = Task("a", "beginner/right-v1", "Why?")


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        (untyped, "has no type hint for 'shelf'"),
        (lambda: TaskSet("acme/set-v1", {"train": [TASK, TASK]}), "the id 'a' occurs twice in 'train'. Give"),
        (lambda: TaskSet("acme/set-v1", {"test": [TASK]}), "unknown split ['test']. The splits are: train"),
        (lambda: TaskSet("acme/set-v1", {"train": [TASK]})["test"], "has no split 'test'. The splits are"),
        (lambda: make("agentgym/sqll-v1"), "Did you mean 'agentgym/sql-v1'?"),
        (lambda: load_reward("mathverify"), "mathverify"),
        (lambda: register("acme/shop-v1", 3), "'acme/shop-v1' was given 3. Register an Environment class"),
    ],
    ids=["tool", "ids", "split", "read", "name", "reward", "registered"],
)
def test_a_mistake_in_python_is_an_error_of_ours(mistake, words):
    with pytest.raises(AgentGymError) as error:
        mistake()
    assert words in str(error.value)


def test_a_task_without_its_split_keeps_the_one_that_it_stands_in():
    TaskSet("acme/set-v1", {"held_out": [TASK]}).to_jsonl("unmarked.jsonl")
    read = TaskSet.from_jsonl("unmarked.jsonl")
    assert (len(read["train"]), len(read["held_out"])) == (0, 1)
