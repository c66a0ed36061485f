"""Every command as a user types it: what it prints, what it leaves on disk, and how it fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentgym.cli.app import app

CODE = str(Path(__file__).with_name("acme_counter.py"))
COMMANDS = [
    "list",
    "play",
    "rollout",
    "train",
    "eval",
    "show",
    "report",
    "view",
    "check",
    "tasks import",
    "tasks show",
    "tasks check",
    "compare",
    "power",
    "episodes rescore",
    "episodes replay",
    "episodes fork",
    "export",
    "dev credit-bench",
    "dev credit-bias",
    "dev sandbox-attack",
    "credit audit",
    "credit advise",
    "cluster plan",
    "cluster up",
    "cluster probe",
    "serve environments",
    "serve policy",
    "model check",
    "model convert",
    "sandbox doctor",
    "sandbox shell",
    "sandbox ps",
    "sandbox clean",
    "sandbox image",
]
ENVIRONMENT_VARIABLES = {**os.environ, "COLUMNS": "300", "NO_COLOR": "1", "TERM": "dumb"}


def agentgym(*words, stdin=None):
    return CliRunner().invoke(app, [str(word) for word in words], input=stdin, env=ENVIRONMENT_VARIABLES)


def test_help_is_quick_to_load_and_names_every_command():
    """No torch, no trl, no numpy: whoever asks for help does not wait for them."""
    code = (
        "import sys; from typer.testing import CliRunner; from agentgym.cli.app import app\n"
        "r = CliRunner().invoke(app, ['--help']); print(r.output)\n"
        "heavy = {'torch', 'transformers', 'trl', 'numpy', 'pydantic', 'datasets'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else r.exit_code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=ENVIRONMENT_VARIABLES)
    assert done.returncode == 0, done.stderr
    commands = {command.split()[0] for command in COMMANDS} - {"dev"}  # for maintainers: it works, but is not listed
    assert len(commands) <= 19
    for command in commands:
        assert f"\n  {command} " in done.stdout
    assert "\n  dev " not in done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_every_command_has_an_example_of_itself(command):
    done = agentgym(*command.split(), "--help")
    assert done.exit_code == 0
    assert f"Example: agentgym {command}" in " ".join(done.output.split())


def test_rollout_keeps_its_episodes_and_show_reads_them(tmp_path):
    run = tmp_path / "run"
    done = agentgym(
        "rollout", "--tasks", "acme/counts-v1:train", "--limit", 3, "--group-size", 2, "--out", run, "--import", CODE
    )
    assert done.exit_code == 0, done.output
    assert "episodes  6, of which 0 failed" in done.stdout
    assert "success   100 %" in done.stdout
    listed = agentgym("show", run, "--list", "rollout/").stdout
    assert listed.count("success 1  turns 2  answered") == 6
    episode = listed.split()[0]
    printed = agentgym("show", run, "--episode", episode).stdout
    assert "submit()" in printed
    assert "answered: success +1" in printed
    assert agentgym("show", run).exit_code == 0


def test_the_same_label_is_resumed_but_never_mixed(tmp_path):
    words = ["rollout", "--tasks", "acme/counts-v1:train", "--limit", 3, "--out", tmp_path / "r", "--import", CODE]
    assert agentgym(*words).exit_code == 0
    assert agentgym(*words).exit_code == 0
    done = agentgym(*words, "--seed", 4)
    assert done.exit_code == 2
    assert "seed was 0, now 4" in done.stderr
    assert "--label" in done.stderr


def test_eval_measures_records_and_compares(tmp_path):
    words = ["eval", "--tasks", "acme/counts-v1", "--policy", "oracle", "--import", CODE]
    done = agentgym(
        *words,
        "--group-size",
        2,
        "--out",
        tmp_path / "run",
        "--label",
        "first",
        "--html",
        "--json",
        tmp_path / "first.json",
    )
    assert done.exit_code == 0, done.output
    report = json.loads((tmp_path / "first.json").read_text())
    assert report["summary"]["success"]["value"] == report["summary"]["pass_at"]["2"]["value"] == 1.0
    assert report["summary"]["tasks"] == len(report["rows"]) == 10
    assert (tmp_path / "run" / "report.html").is_file()
    assert "--html needs --out" in agentgym(*words, "--html").stderr
    assert "pass^2" in done.stdout
    record = tmp_path / "run" / "evaluation" / "first.json"
    assert json.loads(record.read_text())["split"] == "held_out"
    same = agentgym(*words, "--against", record)
    assert "gain +0 points" in same.stdout
    other = agentgym(*words, "--against", record, "--limit", 4)
    assert other.exit_code == 2
    assert "6 tasks are only in the first" in other.stderr
    assert agentgym("report", tmp_path / "run").stdout.strip().endswith("report.html")
    assert "first: 100 %" in agentgym("show", tmp_path / "run").stdout


def test_a_person_plays_through_a_pipe():
    lines = 'add(2)\n{"name": "add", "arguments": {"amount": 1}}\nsubmit\n'
    done = agentgym("play", "acme/counter-v1", "--index", 2, "--import", CODE, stdin=lines)
    assert done.exit_code == 0, done.output
    assert "Count to 3." in done.stdout
    assert "submitted 3" in done.stdout
    assert "answered after 3 turns: success +1" in done.stdout


def test_a_persons_slip_costs_no_turn_and_the_end_of_input_ends_the_episode():
    done = agentgym("play", "acme/counter-v1", "--import", CODE, stdin="add(\nopen('x').read()\nadd(1, 2)\n\nadd 3\n")
    assert done.exit_code == 0, done.output
    assert "answered after 1 turn: success +0" in done.stdout
    assert done.stdout.count("This is not a call") == 3
    assert "add takes at most 1 argument." in done.stdout


@pytest.mark.needs_namespaces
def test_a_person_is_shown_the_tools_that_an_environment_has_after_its_reset():
    done = agentgym("play", "agentgym/mcp-v1", stdin='find("ropes")\n')
    assert "find(item: string)" in done.output
    assert "There is no ropes on any shelf" in done.output


def test_a_task_can_be_written_on_the_command_line():
    done = agentgym("play", "acme/counter-v1", "--prompt", "Count as you like.", "--import", CODE, stdin="submit()\n")
    assert "Count as you like." in done.stdout
    bad = agentgym("play", "acme/counter-v1", "--prompt", "x", "--parameters", "[1]", "--import", CODE)
    assert bad.exit_code == 2
    assert "not a JSON object" in bad.stderr


def test_terminal_escapes_of_a_tool_never_reach_the_terminal(tmp_path):
    code = tmp_path / "hostile_env.py"
    code.write_text(
        "from agentgym import Environment, register, tool\n"
        "class Hostile(Environment):\n"
        '    """Says what no terminal should obey."""\n'
        "    @tool(final=True)\n"
        "    def speak(self) -> str:\n"
        '        """Speak."""\n'
        '        return "\\x1b]0;owned\\x07\\x1b[2J[bold]not markup[/bold]\\u202e"\n'
        'register("acme/hostile-v1", Hostile)\n'
    )
    done = agentgym("play", "acme/hostile-v1", "--prompt", "Go.", "--import", code, stdin="speak\n")
    assert "\x1b" not in done.stdout
    assert "\u202e" not in done.stdout
    assert "[bold]not markup[/bold]" in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["eval", "--tasks", "sql/stroe-v1", "--policy", "oracle"], "Did you mean 'sql/store-v1'?"),
        (["eval", "--tasks", "acme/counts-v1:test", "--policy", "oracle"], "no split 'test'"),
        (["eval", "--tasks", "acme/counts-v1", "--policy", "gpt"], "chat_api:URL#model"),
        (["eval", "--tasks", "acme/counts-v1", "--policy", "transformers:"], "--policy transformers"),
        (["eval", "--tasks", "acme/counts-v1:validation", "--policy", "oracle"], "no tasks in 'validation'"),
        (["rollout", "--tasks", "nowhere.jsonl"], "Cannot read the task file nowhere.jsonl"),
        (["play", "acme/nothing-v1"], "Nothing in environments is named 'acme/nothing-v1'"),
        (["play", "acme/counter-v1", "--index", "99"], "so give 0 to 7"),
        (["play", "acme/counter-v1", "--task", "x"], "has no task 'x'"),
        (["check", "acme/nothing-v1"], "Nothing in environments"),
        (["tasks", "import", "mbpq", "x", "--out", "y.jsonl"], "Did you mean 'mbpp'?"),
        (["tasks", "import", "mbpp", "nowhere", "--out", "y.jsonl"], "no file or folder nowhere"),
    ],
)
def test_a_mistake_is_one_clear_message_and_exit_code_2(words, message):
    modules = [] if words[0] in ("tasks",) else ["--import", CODE]
    done = agentgym(*words, *modules)
    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert "Traceback" not in done.output


def test_missing_runs_recipes_and_modules_are_one_clear_message_too(tmp_path):
    (tmp_path / "broken.py").write_text("1 / 0")
    for words, message in [
        (["show", tmp_path / "x"], "There is no run at"),
        (["report", tmp_path / "x"], "There is no run at"),
        (["train", tmp_path / "x.toml"], "Cannot read the recipe"),
        (["list", "--import", tmp_path / "x.py"], "this file does not exist"),
        (["list", "--import", "no_such_module"], "No module named 'no_such_module'"),
        (["list", "--import", tmp_path / "broken.py"], "ZeroDivisionError"),
    ]:
        done = agentgym(*words)
        assert done.exit_code == 2, (words, done.output)
        assert message in done.stderr
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "metrics.jsonl").write_text("")
    done = agentgym("show", tmp_path / "run", "--episode", "x")
    assert done.exit_code == 2
    assert "holds no ledger.sqlite" in done.stderr


def test_debug_shows_where_an_error_came_from():
    done = agentgym("play", "acme/nothing-v1", "--debug")
    assert type(done.exception).__name__ == "UnknownNameError"


def test_an_imported_data_set_is_a_task_set(tmp_path):
    source, target = tmp_path / "mbpp.jsonl", tmp_path / "tasks.jsonl"
    item = {
        "task_id": 1,
        "text": "Add two numbers.",
        "code": "def add(a, b):\n    return a + b",
        "test_list": ["assert add(1, 2) == 3", "assert add(2, 2) == 4"],
    }
    source.write_text(json.dumps(item) + "\n")
    done = agentgym("tasks", "import", "mbpp", source, "--out", target)
    assert done.exit_code == 0, done.output
    assert "held_out 1" in done.stdout
    assert "Add two numbers." in agentgym("tasks", "show", target).stdout
    done = agentgym("tasks", "import", "mbpp", source, "--out", target, "--option", "split=train")
    assert "train 1" in done.stdout
    done = agentgym("tasks", "import", "mbpp", source, "--out", target, "--split", "validation")
    assert "validation 1" in done.stdout
    done = agentgym("tasks", "import", "mbpp", source, "--out", target, "--option", "splits=train")
    assert "the importer mbpp has the options split" in done.stderr


@pytest.mark.parametrize(
    ("sent", "code_at_end", "prefix"),
    [
        (signal.SIGINT, 130, []),
        pytest.param(signal.SIGTERM, 143, [], marks=pytest.mark.thorough),
        pytest.param(signal.SIGHUP, 129, [], marks=pytest.mark.thorough),
        (signal.SIGTERM, 143, ["env", "--ignore-signal=INT"]),  # as a shell starts what is to run in the background
    ],
    ids=["Ctrl-C", "SIGTERM", "SIGHUP", "SIGTERM in the background"],
)
def test_a_command_that_is_stopped_says_how_to_go_on_and_a_second_call_does(tmp_path, sent, code_at_end, prefix):
    code = tmp_path / "slow_counter.py"
    code.write_text(
        Path(CODE)
        .read_text()
        .replace(
            "class Counting(Counter):",
            "import asyncio, pathlib, time\nfrom concurrent.futures import ThreadPoolExecutor\n"
            "forward_pass = ThreadPoolExecutor(1)\nclass Counting(Counter):",
        )
        .replace(
            '    reward = "acme_target"',
            '    reward = "acme_target"\n\n    async def reset(self, task, *, seed):\n'
            "        if task.id == 'train-3' and not pathlib.Path('go').exists():\n"
            "            forward_pass.submit(time.sleep, 60)  # which nothing can interrupt\n"
            "            pathlib.Path('there').touch()\n            await asyncio.sleep(60)\n"
            "        return await super().reset(task, seed=seed)",
        )
    )
    run = "from agentgym.cli import main; main()"
    words = [
        sys.executable,
        "-c",
        run,
        "rollout",
        "--tasks",
        "acme/counts-v1:train",
        "--concurrency",
        "1",
        "--out",
        "run",
        "--import",
        str(code),
    ]
    process = subprocess.Popen(
        [*prefix, *words],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT_VARIABLES,
    )
    deadline = time.monotonic() + 30
    while not (tmp_path / "there").exists() and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.05)
    second = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, env=ENVIRONMENT_VARIABLES)
    assert second.returncode == 2
    assert "Another command is using run at the moment." in second.stderr
    process.send_signal(sent)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == code_at_end, stderr
    assert "Run the same command again to go on." in stderr
    assert "Traceback" not in stderr
    (tmp_path / "go").touch()
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, env=ENVIRONMENT_VARIABLES)
    assert "episodes  8, of which 0 failed" in done.stdout, done.stderr


def test_ctrl_c_while_the_command_line_is_imported_prints_no_traceback():
    code = (
        "import sys\n"
        "class Interrupts:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'agentgym.cli.app': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupts())\n"
        "from agentgym.cli import main; main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=ENVIRONMENT_VARIABLES)
    assert (done.returncode, done.stderr) == (130, "\nStopped.\n")
