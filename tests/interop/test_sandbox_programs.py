"""Agent programs inside the sandbox of their episode: what they reach, what they leave, and what they try."""

from __future__ import annotations

import asyncio
import io
import json
import re
import shlex
import socket
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from by_day import cases
from rich.console import Console

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
    load_task_set,
)
from agentgym.errors import AgentGymError, RecipeError, SandboxUnavailable
from agentgym.interop.gateway.gateway import PolicyGateway
from agentgym.interop.gateway.program_loop import ProgramLoop
from agentgym.interop.gateway.programs import AgentProgram
from agentgym.interop.gateway.refusals import MAX_REFUSED
from agentgym.sandbox import rootfs
from agentgym.storage.failures import count_failures
from agentgym.storage.ledger import Ledger
from agentgym.testing import ByteRenderer, Counter, TargetReached
from agentgym.training.recipe.recipe import Recipe
from agentgym.training.run import train

pytest.importorskip("starlette")
pytestmark = pytest.mark.needs_namespaces

ROOT = Path(__file__).parents[2]
LOOP = """
import json, os, subprocess, sys, urllib.error, urllib.request

def send(path, body=None, key=os.environ["AGENTGYM_TOKEN"], url=os.environ["AGENTGYM_URL"]):
    headers = {"Authorization": "Bearer " + key, "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url + path, data, headers), timeout=20) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)

SHELL = {"type": "function", "function": {"name": "shell", "parameters": {"type": "object", "properties": {
    "command": {"type": "string"}}}}}

def play():
    messages = [{"role": "user", "content": sys.argv[1]}]
    while True:
        status, answer = send("/v1/chat/completions", {"messages": messages, "tools": [SHELL]})
        if status != 200:
            sys.exit(answer["error"]["message"])
        message = answer["choices"][0]["message"]
        messages.append(message)
        for call in message.get("tool_calls") or sys.exit():
            command = json.loads(call["function"]["arguments"])["command"]
            done = subprocess.run(command, shell=True, capture_output=True, text=True)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": done.stdout + done.stderr})
"""


def program(code: str = "play()", **options) -> AgentProgram:
    return AgentProgram(("python3", "-c", LOOP + code, "{task}"), where="sandbox", **options)


def shell(*commands: str) -> list[Message]:
    """A script that runs the commands one after another, and then answers."""
    calls = [Message("assistant", "", (Call("shell", {"command": command}),)) for command in commands]
    return [*calls, Message("assistant", "Done.")]


async def play_in_sandbox(
    script, started: AgentProgram | None = None, *, task: Task | None = None, silence_s=60, **options
) -> Trajectory:
    """Play one task in its sandbox."""
    policy = ScriptedPolicy(script, ByteRenderer())
    limits = {"infra_retries": 0, "time_s": 90, "max_episode_tokens": 100_000} | options.pop("budgets", {})
    budgets = Budgets(**limits)
    engine = PolicyGateway(started or program(), silence_s=silence_s)
    config = RolloutConfig(engine=engine, budgets=budgets, **options)
    [trajectory] = await EpisodeManager(policy, config).collect([task or shell_task()])
    return trajectory


def shell_task() -> Task:
    return load_task_set("code/shell-v1")["train"][0]


def printed(trajectory: Trajectory, turn: int = 0) -> str:
    """What the agent's command of a turn printed."""
    return trajectory.turns[turn].results[0].content


async def test_a_program_works_beside_the_tasks_files_and_is_judged_by_what_it_leaves():
    task = shell_task()
    trajectory = await play_in_sandbox(shell("ls; id -u; pwd; echo $HOME", task.truth["command"]))
    assert (trajectory.error, trajectory.success) == (None, 1.0)
    assert trajectory.stop_reason is StopReason.ANSWERED
    assert printed(trajectory).split()[-3:] == ["1000", "/work", "/tmp/home"]
    assert {path.split("/")[0] for path in task.parameters["files"]} <= set(printed(trajectory).split())
    assert [call.name for call in trajectory.turns[-1].calls] == ["done"]
    idle = await play_in_sandbox(shell("true"))
    assert (idle.error, idle.success) == (None, 0.0)


SECRET = "known-to-the-judge"
CONNECT = """
import socket
for address in (("127.0.0.1", {port}), ("10.0.0.1", 80), ("1.1.1.1", 443)):
    try:
        socket.create_connection(address, timeout=2)
        print("reached", address)
    except OSError:
        print("no way")
"""


async def test_it_reaches_the_gateway_and_nothing_else():
    with socket.create_server(("127.0.0.1", 0)) as other:
        code = CONNECT.format(port=other.getsockname()[1])
        look = f"ls -d {ROOT} {Path.home()}/.cache; touch /usr/x; cat /etc/shadow"
        trajectory = await play_in_sandbox(shell(shlex.join(["python3", "-c", code]), look))
    assert trajectory.error is None
    assert printed(trajectory).split("\n")[:3] == ["no way"] * 3
    assert printed(trajectory, 1).count("o such file") == 3
    assert "ead-only" in printed(trajectory, 1)


async def test_it_sees_neither_the_key_of_another_episode_nor_the_truth():
    """Two episodes run at once; each lists every key, and looks for its truth."""
    tasks = [
        replace(task, truth={**task.truth, "files": {**task.truth["files"], SECRET: ""}})
        for task in load_task_set("code/shell-v1")["train"][:2]
    ]
    look = "cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep ^AGENTGYM_TOKEN= | sort -u; sleep 0.2"
    search = f"grep -rlF {SECRET} /work /tmp; grep -slF {SECRET} /proc/[0-9]*/environ"
    policy = ScriptedPolicy(shell(look, search), ByteRenderer())
    budgets = Budgets(infra_retries=0, max_episode_tokens=100_000)
    config = RolloutConfig(engine=PolicyGateway(program()), budgets=budgets)
    first, second = await EpisodeManager(policy, config).collect(tasks)
    keys = [re.findall("^AGENTGYM_TOKEN=.*", printed(trajectory), re.MULTILINE) for trajectory in (first, second)]
    assert [len(own) for own in keys] == [1, 1]
    assert keys[0] != keys[1]
    assert printed(first, 1) == ""


async def test_a_key_is_worth_nothing_after_its_episode():
    code = "send('/episode/end', {}); time.sleep(0.5); print(send('/v1/models')); play()"
    trajectory = await play_in_sandbox([Message("assistant", "Hm.")] * 9, program(f"import time; {code}"))
    assert "before it requested" in trajectory.error  # an end without a request is the program's own doing
    code = "status, _ = send('/v1/chat/completions', {'messages': [{'role': 'user', 'content': 'a'}]})\n"
    code += "send('/episode/end', {})\nfor _ in range(99): send('/v1/chat/completions', {'messages': []})"
    trajectory = await play_in_sandbox([Message("assistant", "Hm.")] * 9, program(code))
    assert (trajectory.error, trajectory.success, len(trajectory.turns)) == (None, 0.0, 1)


REFUSED = """
import os, urllib.request
for _ in range({count}):
    url, headers = os.environ["AGENTGYM_URL"] + "/v1/responses", {{"x-api-key": os.environ["AGENTGYM_TOKEN"]}}
    request = urllib.request.Request(url, b'{{"input": [{{"type": "x_call"}}]}}', headers)
    try:
        urllib.request.urlopen(request)
    except OSError as error:
        print(error.code)
"""


@pytest.mark.parametrize("count", [1, MAX_REFUSED])
async def test_an_agent_cannot_void_its_episode_by_a_request_that_is_refused(count):
    command = shlex.join(["python3", "-c", REFUSED.format(count=count)]) + "; kill -9 $PPID"
    trajectory = await play_in_sandbox(shell(command))
    assert (trajectory.error, trajectory.success) == (None, 0.0)
    assert trajectory.provenance.extra["refused"]["count"] == count
    assert count_failures(trajectory)["request_refused"] == 1


TITLE_AND_TASK = """
import threading
title = {"messages": [{"role": "system", "content": "You write titles."}, {"role": "user", "content": "Work."}]}
titles = threading.Thread(target=send, args=("/v1/chat/completions", title))
titles.start()
if WAITS:
    titles.join()
play()
"""


@pytest.mark.parametrize("waits", [True, False])
async def test_an_agent_cannot_make_what_it_has_said_auxiliary(waits, monkeypatch):
    """A request with tools after the policy's first answer may come from a command of the agent."""
    complete, answer = ProgramLoop.complete, ScriptedPolicy.generate
    chats, may_answer = [], asyncio.Event()

    async def complete_once_known(loop, chat):
        chats.append(chat)
        if waits or len(chats) == 2:
            may_answer.set()
        return await complete(loop, chat)

    async def answer_late(policy, request):
        await may_answer.wait()
        return await answer(policy, request)

    monkeypatch.setattr(ProgramLoop, "complete", complete_once_known)
    monkeypatch.setattr(ScriptedPolicy, "generate", answer_late)
    script = shell(shell_task().truth["command"])
    trajectory = await play_in_sandbox(script, program(TITLE_AND_TASK.replace("WAITS", str(waits))))
    assert trajectory.error is None
    assert len(trajectory.rows()) == (2 if waits else 1)
    assert ("auxiliary" in trajectory.provenance.extra) is not waits


async def test_a_refusal_of_the_programs_first_request_is_ours():
    trajectory = await play_in_sandbox(shell("true"), program(REFUSED.format(count=1)))
    assert "x_call" in trajectory.error
    assert not trajectory.scored


async def test_a_flood_of_connections_and_requests_is_bounded_and_harms_nobody():
    code = "import socket\nheld = []\nfor _ in range(100):\n    s = socket.socket(); s.settimeout(0.05)\n"
    code += "    held.append(s)\n    try: s.connect(('127.0.0.1', 3129))\n    except OSError: pass\nprint(len(held))"
    task = shell_task()
    trajectory = await play_in_sandbox(shell(shlex.join(["python3", "-c", code]), task.truth["command"]))
    assert printed(trajectory).strip() == "100"
    assert (trajectory.error, trajectory.success) == (None, 1.0)


async def test_a_program_that_asks_for_ever_is_ended_by_the_budget_of_turns():
    code = "while True: send('/v1/chat/completions', {'messages': [{'role': 'user', 'content': 'a'}]})"
    trajectory = await play_in_sandbox([Message("assistant", "Hm.")] * 9, program(code), budgets={"max_turns": 3})
    assert (trajectory.stop_reason, len(trajectory.turns)) == (StopReason.MAX_TURNS, 3)


async def test_a_program_that_never_asks_fails_its_episode():
    trajectory = await play_in_sandbox(shell(), program("import time; time.sleep(60)"), silence_s=1)
    assert "requested nothing for 1 s" in trajectory.error
    trajectory = await play_in_sandbox(shell(), program("sys.exit('no key')"))
    assert "ended with 1" in trajectory.error
    assert "no key" in trajectory.error


async def test_a_program_that_dies_is_judged_by_what_it_left():
    command = shell_task().truth["command"]
    trajectory = await play_in_sandbox(shell(f"{command}\nkill -9 $PPID"))
    assert (trajectory.error, trajectory.success) == (None, 1.0)
    assert trajectory.provenance.extra["program"]["exit_code"] == -9


async def test_binary_output_without_end_is_cut():
    code = "os.write(1, bytes(range(256)) * 20_000); play()"
    trajectory = await play_in_sandbox(shell(shell_task().truth["command"]), program(code))
    assert trajectory.success == 1.0
    assert len(trajectory.provenance.extra["program"]["output"]) <= 4000


async def test_memory_is_bounded_and_the_agents_own_doing():
    trajectory = await play_in_sandbox(shell("python3 -c 'x = bytearray(10**9)'; echo $?", "true"))
    assert trajectory.error is None
    assert printed(trajectory).strip() != "0"


async def test_files_of_the_host_come_along_and_a_home_is_not_handed_in(tmp_path):
    (tmp_path / "agent.py").write_text(LOOP + "play()")
    started = AgentProgram(("python3", "{home}/agent.py", "{task}"), where="sandbox", files=(f"{tmp_path}/agent.py",))
    trajectory = await play_in_sandbox(shell("ls ~", shell_task().truth["command"]), started)
    assert printed(trajectory) == "agent.py\n"
    assert "agent.py" not in trajectory.turns[-1].results[-1].content
    assert trajectory.success == 1.0


def test_bad_input_is_refused_before_anything_starts(tmp_path):
    for options, words in (
        ({"where": "cloud"}, "Choose one of host, sandbox"),
        ({"where": "sandbox", "files": ("gone.py",)}, "'gone.py' does not exist"),
        ({"files": ("gone.py",)}, "where = 'sandbox'"),
    ):
        with pytest.raises(AgentGymError, match=re.escape(words)):
            AgentProgram(("true",), **options)


async def test_an_environment_without_a_sandbox_and_a_backend_without_a_relay_are_refused_once():
    counter = Task("t", "test/counter-v1", "Count.", parameters={"target": 1}, truth=1)
    with pytest.raises(AgentGymError, match="Counter has no sandbox for a program"):
        await play_in_sandbox(shell(), task=counter, environment=Counter, reward=TargetReached())
    with pytest.raises(AgentGymError, match=r"'local' cannot reach the gateway.*'namespaces' or 'docker'"):
        await play_in_sandbox(shell(), backend=SimpleNamespace(name="local"))


async def test_a_program_that_the_sandbox_does_not_have_is_named():
    trajectory = await play_in_sandbox(shell(), AgentProgram(("codex", "{task}"), where="sandbox"))
    assert "'codex' cannot be started in the sandbox" in trajectory.error


@pytest.mark.slow
def test_a_tiny_policy_is_trained_in_the_sandbox_by_a_gradient_that_is_not_zero(tmp_path):
    recipe = {
        "name": "programs",
        "tasks": {"set": "code/shell-v1"},
        "policy": {"call_format": "hermes", "tiny": {"vocabulary": 400, "hidden": 32, "layers": 2, "heads": 2}},
        "reward": {"also": ["overlong"], "options": {"overlong": {"limit": 24, "margin": 24}}},
        "episode": {
            "max_turns": 2,
            "max_episode_tokens": 400,
            "max_turn_tokens": 24,
            "program": {"command": ["python3", "-c", f"{LOOP}play()", "{task}"], "where": "sandbox"},
        },
        "warm_start": {"demonstrations": 2, "steps": 40, "batch_size": 8, "validate_every": 100, "validate_tasks": 1},
        "train": {
            "steps": 1,
            "tasks_per_step": 1,
            "group_size": 8,
            "estimator": "return_to_go",
            "validate_every": 100,
            "validate_tasks": 1,
        },
        "evaluate": {"tasks": 1},
        "machine": {"device": "cpu", "threads": 1},
    }
    train(Recipe.parse(recipe), folder=tmp_path, console=Console(file=io.StringIO()))
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    [norm] = [row["grad_norm"] for row in rows if "guard/zero_gradient" in row]
    assert norm > 0
    ledger = Ledger(tmp_path / "ledger.sqlite")
    trained = [ledger.load(name) for name in ledger.finished("train-000000")]
    ledger.close()
    assert len(trained) == 8
    assert all(trajectory.valid and trajectory.turns for trajectory in trained)


def test_a_recipe_whose_environment_has_no_sandbox_is_refused():
    data = {
        "name": "n",
        "tasks": {"set": "text/number-guess-v1"},
        "policy": {"tiny": {}},
        "train": {"steps": 1},
        "episode": {"program": {"command": ["true"], "where": "sandbox"}},
    }
    recipe = Recipe.parse(data)
    with pytest.raises(RecipeError, match=r"has no sandbox for episode\.program"):
        recipe.machine.make_engine(recipe.episode, recipe.tasks.load())


SHELLS = {
    "claude_code": ("npm:@anthropic-ai/claude-code", "Bash", "command", {"description": "Work"}),
    "codex": ("npm:@openai/codex", "exec_command", "cmd", {}),
    "gemini_cli": ("npm:@google/gemini-cli", "run_shell_command", "command", {}),
    "mini_swe": ("pypi:mini-swe-agent", "bash", "command", {}),
    "opencode": ("npm:opencode-ai", "bash", "command", {"description": "Work"}),
    "qwen_code": ("npm:@qwen-code/qwen-code", "run_shell_command", "command", {"is_background": False}),
}
"""By the name of its file: a program's package, and the tool that is its shell, with the arguments that it requires."""
FINISHED = {"mini_swe": ["echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"]}


@pytest.mark.slow
@pytest.mark.parametrize("name", cases(SHELLS, by_day=("codex", "mini_swe")))
async def test_an_unchanged_program_mends_a_repository_in_its_sandbox(name):
    package, tool, argument, others = SHELLS[name]
    try:
        rootfs.locate_program(package)
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    script = ROOT / "examples" / "programs" / f"{name}.sh"
    command = ("sh", f"{{home}}/{script.name}", "{task}")
    started = AgentProgram(command, where="sandbox", files=(str(script),), package=package)
    task = load_task_set("swe/one-line-shell-v1")["train"][0]
    commands = [f"git apply - <<'END'\n{task.truth['gold']}\nEND", *FINISHED.get(name, [])]
    calls = [Message("assistant", "THOUGHT: so.", (Call(tool, {argument: text, **others}),)) for text in commands]
    slowly = {"silence_s": 600, "budgets": {"time_s": 600}}
    trajectory = await play_in_sandbox([*calls, Message("assistant", "Done.")], started, task=task, **slowly)
    assert (trajectory.error, trajectory.success) == (None, 1.0)
    assert len(trajectory.rows()) == 1  # its history came back token for token
    assert trajectory.provenance.extra["program"]["package"].startswith(package)


async def test_a_program_that_has_asked_and_ends_with_the_status_of_a_missing_command_is_judged_as_it_stands():
    """A shell script ends so when its last command is missing: the agent has acted, so this is its own result."""
    asks_once = 'send("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "tools": [SHELL]})'
    trajectory = await play_in_sandbox(shell("true"), program(f"{asks_once}; sys.exit(127)"))
    assert (trajectory.error, trajectory.stop_reason) == (None, StopReason.ANSWERED), "its files are handed in"
    assert trajectory.provenance.extra["program"]["exit_code"] == 127
    missing = await play_in_sandbox(shell("true"), AgentProgram(("nosuch",), where="sandbox"))
    assert "The program 'nosuch' cannot be started in the sandbox" in missing.error
