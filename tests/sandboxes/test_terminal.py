"""Task folders of Harbor and Terminal-Bench: the agent's shell, what is handed in, and who is paid for it."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from task_folders import write_folders
from typer.testing import CliRunner

import agentgym
from agentgym import Call, Task, load, load_task_set
from agentgym.cli.app import app
from agentgym.errors import JudgeError, TaskError
from agentgym.registry import load_reward
from agentgym.sandbox import cache_folder
from agentgym.sandbox.contract import REMOVED
from agentgym.sandbox.rootfs.python_image import write_python_image
from agentgym.sandboxes.code.terminal.disk import memory_mib
from agentgym.sandboxes.code.terminal.submission import read_submission
from agentgym.testing import check_environment

PROGRAMS = "sh bash cat chmod head ln ls mkdir printf rm sed sleep test touch true"
pytestmark = pytest.mark.needs_namespaces


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    """The tasks of the folders on an image with few programs, by id; and where folders and cache are."""
    with pytest.MonkeyPatch.context() as patch:
        top = tmp_path_factory.mktemp("terminal")
        patch.setenv("AGENTGYM_CACHE", str(top / "cache"))
        images = top / "cache" / "images"
        images.mkdir(parents=True)
        write_python_image(images / "python-3.11-slim", sys.executable, programs=PROGRAMS, data=())
        (images / "python-3.11-slim" / "data").mkdir()
        (images / "python-3.11-slim" / "data" / "of-the-image.txt").write_text("was there\n")
        (images / "debian-12").symlink_to(images / "python-3.11-slim")
        write_folders(top / "folders")
        task_set = load("importers", "harbor")(top / "folders")
        yield {task.id: task for task in task_set["held_out"]}


async def handed_in(task: Task, *commands: str, remote: bool = False) -> str:
    """What an agent hands in that runs these commands."""
    environment = agentgym.make(task.environment)
    environment.is_remote = remote
    try:
        await environment.reset(task.public(), seed=0)
        for command in commands:
            assert (await environment.call(Call("bash", {"command": command}))).ok
        result = await environment.call(Call("done", {}))
        assert result.ok, result.content
        return str(result.content).partition(": ")[2]
    finally:
        await environment.close()


async def earned(task: Task, *commands: str) -> tuple[float, float]:
    components = await load_reward("terminal_verifier").score(task, await handed_in(task, *commands))
    return components["success"], components["forged"]


async def test_the_files_are_what_the_dockerfile_says_and_the_shell_keeps_its_state(tasks):
    task = tasks["greeting"]
    assert task.prompt.startswith('Write the line "Hello, NAME!"')
    assert task.tags == ("files",)
    environment = agentgym.make(task.environment)
    twin = agentgym.make(task.environment)
    try:
        await environment.reset(task.public(), seed=0)

        async def bash(command: str, of=environment) -> str:
            return (await of.call(Call("bash", {"command": command}))).content

        assert await bash("pwd; cat name.txt; echo $GREETING; greet; cd /; x=3") == ("/app\nAda\nHello, you\nAda")
        assert await bash("echo $x; pwd") == "3\n/"
        assert (await bash("hello; echo $PATH")).startswith("hello\n/app/bin:/usr/")
        before = await environment.state_key()
        await twin.restore(task.public(), await environment.checkpoint(), seed=0)
        assert await bash("echo $x; pwd", twin) == "3\n/"
        await bash("touch /app/more")
        assert await environment.state_key() != before
        assert await twin.state_key() == before
    finally:
        await environment.close()
        await twin.close()


async def test_the_environment_and_its_reward_keep_their_contracts(tasks):
    task_set = load("importers", "harbor")(tasks["greeting"].parameters["folder"])
    await check_environment("agentgym/code-terminal-v1", task_set, sample=1)


RIGHT = {
    "greeting": ["printf 'Hello, Ada!' > /app/hello.txt"],
    "counted": ["printf 'import sys\\nprint(len(sys.stdin.read().split()))' > count.py"],
    "old-style": [
        "rm -r old; echo 'echo yes' > real; chmod +x real; mv real say || { cat real > say; chmod +x say; rm real; }"
    ],
}
FORGING = 'printf \'open("/logs/verifier/reward.json", "w").write("1")\' > count.py'
KILLING = FORGING.replace(")' >", "); import os; os.kill(-1, 9)' >")
WRONG = {
    "nothing": ("greeting", []),
    "another line": ("greeting", ["echo 'Hello, Bob!' > hello.txt"]),
    "the reward written beforehand": ("greeting", ["mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt"]),
    "the tests written beforehand": ("greeting", ["echo 'echo 1 > /logs/verifier/reward.txt' > /tests/test.sh"]),
    "the tests' folder a link": ("greeting", ["rm -rf /tests; ln -s app /tests"]),
    "half of the tests": ("counted", ["printf 'print(7)' > count.py"]),
    "the tests killed": ("counted", [KILLING]),
    "more than asked": ("old-style", [*RIGHT["old-style"], "touch /app/more"]),
}


@pytest.mark.parametrize("name", RIGHT)
async def test_what_is_right_is_paid(tasks, name):
    assert await earned(tasks[name], *RIGHT[name]) == (1, 0)


@pytest.mark.parametrize("name", WRONG)
async def test_what_is_wrong_is_not_paid(tasks, name):
    folder, commands = WRONG[name]
    assert await earned(tasks[folder], *commands) == (0, 0)


async def test_a_program_that_writes_the_reward_while_it_is_tested_is_called_forged(tasks):
    assert await earned(tasks["counted"], FORGING) == (0, 1)


async def test_the_agent_is_root_by_name_and_may_change_every_file_of_the_image(tasks):
    environment = agentgym.make("agentgym/code-terminal-v1")
    try:
        await environment.reset(tasks["counted"].public(), seed=0)
        command = "echo more >> of-the-image.txt; cat of-the-image.txt; ls; echo x > /usr/x; cat /usr/x; echo $EUID"
        content = (await environment.call(Call("bash", {"command": command}))).content
        assert content == "was there\nmore\ncount.py\nempty\nof-the-image.txt\nx\n0"
    finally:
        await environment.close()


async def test_what_is_gone_from_the_image_is_gone_for_the_tests(tasks):
    """Whole folders made anew too, and files put where folders were."""
    commands = ["rm -rf /data; mkdir /data; echo 1 > /data/new", "rm -r /etc/alternatives /opt; echo 2 > /opt"]
    text = await handed_in(tasks["counted"], *commands)
    environment = agentgym.make("agentgym/code-terminal-v1")
    try:
        await environment.reset(tasks["counted"].public(), seed=0)
        spec = (await environment.workspace()).sandbox._spec
        sandbox = await environment.open_sandbox(spec, snapshot=read_submission(text))
        assert await sandbox.list("/data") == ["new"]
        assert await sandbox.read("/opt") == b"2\n"
    finally:
        await environment.close()


async def test_an_episode_is_paid_for_what_was_handed_in(tasks):
    """Links and modes are handed in as they are, and what is gone is gone."""
    text = await handed_in(tasks["old-style"], "rm -r old; mkdir d; ln -s /usr/bin/true d/t; echo > x; chmod +x x")
    entries = read_submission(text).entries
    assert entries[b"app/old"] == REMOVED
    assert b"app/d/t" in entries
    components = await load_reward("terminal_verifier").score(tasks["old-style"], text)
    assert components["success"] == 0
    set_of_solutions = load("importers", "harbor")(tasks["counted"].parameters["folder"])
    [task] = set_of_solutions["held_out"]
    agent = agentgym.ScriptedPolicy(set_of_solutions.oracle(task))
    [episode] = await agentgym.EpisodeManager(agent).collect([task])
    assert episode.outcome["success"] == 1


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[" * 100_000,
        "3",
        "\udc80",
        "{}",
        '{"sha256": "../x", "bytes": 1}',
        '{"sha256": "ab", "bytes": 3, "data": "AAAA"}',
        '{"sha256": "ab", "bytes": -1, "data": "?"}',
        '{"sha256": "ab", "bytes": 99999999999999, "data": ""}',
    ],
)
async def test_a_submission_that_cannot_be_put_into_a_sandbox_earns_nothing(tasks, text):
    assert await load_reward("terminal_verifier").score(tasks["greeting"], text) == {"success": 0.0, "forged": 0.0}


async def test_a_folder_that_was_changed_since_it_was_imported_is_not_played(tasks, tmp_path):
    folder = write_folders(tmp_path, "greeting") / "greeting"
    task = replace(tasks["greeting"], parameters={**tasks["greeting"].parameters, "folder": str(folder)})
    assert await load_reward("terminal_verifier").score(task, "") == {"success": 0.0, "forged": 0.0}
    (folder / "tests" / "test.sh").write_text("echo 1 > /logs/verifier/reward.txt")
    with pytest.raises(TaskError, match="has changed since it was imported"):
        await load_reward("terminal_verifier").score(task, "")


ENTRY = '#!/bin/sh\n(while sleep 0.1; do echo beat > /srv/beat; done) &\nexec "$@"\n'
ALIVE = """#!/bin/sh
rm -f /srv/beat; for i in {1..20}; do [ -s /srv/beat ] || sleep 0.1; done
if [ -f /srv/beat ] && [ -f /app/done ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""


@pytest.fixture
def with_service(tasks, tmp_path):
    """Returns a function: the task of a folder whose image has an entrypoint that starts a service."""

    def imported(compose: str = "", build: str = "agentgym", base: str = "python:3.11-slim") -> Task:
        folder = write_folders(tmp_path, "greeting") / "greeting"
        files = {
            "environment/entry.sh": ENTRY,
            "environment/Dockerfile": f"FROM {base}\nWORKDIR /srv\nCOPY entry.sh /entry.sh\n"
            'RUN chmod 755 /entry.sh\nENTRYPOINT ["/entry.sh"]\nCMD ["false"]\n',
            "tests/test.sh": ALIVE,
            "solution/solve.sh": "mkdir -p /app && touch /app/done\n",
        }
        for name, text in {**files, **({"environment/docker-compose.yaml": compose} if compose else {})}.items():
            (folder / name).write_text(text)
        return load("importers", "harbor")(folder, build=build)["held_out"][0]

    return imported


async def test_the_entrypoint_of_the_image_runs_beside_the_shell_and_the_tests(with_service):
    task = with_service()
    environment = agentgym.make(task.environment)
    try:
        await environment.reset(task.public(), seed=0)
        for _ in range(2):  # also after a command has ended
            command = "rm -f /srv/beat; for i in {1..99}; do [ -s /srv/beat ] || sleep 0.1; done; cat /srv/beat; pwd"
            result = await environment.call(Call("bash", {"command": command}))
            assert result.content == "beat\n/srv"
    finally:
        await environment.close()
    assert await earned(task, "mkdir -p /app && touch /app/done") == (1, 0)
    assert await earned(task) == (0, 0)
    assert await earned(task, "mkdir -p /app && touch /app/done; rm /entry.sh") == (0, 0), "without its service"
    forging = ENTRY.replace("echo beat > /srv/beat", "echo 1 > /logs/verifier/reward.txt; touch /app/done /srv/beat")
    forge, solve = f"mkdir -p /app; printf '%s' '{forging}' > /entry.sh", "mkdir -p /app && touch /app/done"
    assert await earned(task, forge) == (0, 1)
    (Path(task.parameters["folder"]) / "solution/solve.sh").unlink()
    [unsolved] = load("importers", "harbor")(task.parameters["folder"])["held_out"]
    assert await earned(unsolved, forge) == (0, 0), "nothing shows that it is forged, but it does not count"
    assert await earned(unsolved, f"echo '# as it was' >> /entry.sh; {solve}") == (1, 0)


async def test_a_compose_file_replaces_the_entrypoint(with_service):
    compose = "services: {main: {build: ., entrypoint: [sleep, infinity]}}\n"
    assert await earned(with_service(compose), "mkdir -p /app && touch /app/done") == (0, 0)


async def test_more_disk_than_the_machine_can_give_is_not_granted_and_a_full_disk_is_the_agents(tasks, tmp_path):
    folder = write_folders(tmp_path, "counted") / "counted"
    (folder / "task.toml").write_text("verifier.env = { EXPECTED = '7' }\nenvironment.storage_mb = 900000\n")
    with pytest.warns(UserWarning, match=r"less disk than they request: \d+ MiB for 900000 \(1\)"):
        [asking] = load("importers", "harbor")(folder)["held_out"]
    assert asking.parameters["disk"]["used_mib"] <= memory_mib() / 8
    with pytest.warns(UserWarning, match="8 MiB for 900000"):
        [task] = load("importers", "harbor")(folder, disk_mib=8)["held_out"]
    fill = "head -c 20000000 /dev/zero > /data/full 2> /dev/null || { rm /data/full; echo full; }"
    for command, paid in ((RIGHT["counted"][0], 1), ("true", 0)):
        environment = agentgym.make(task.environment)
        try:
            await environment.reset(task.public(), seed=0)
            result = await environment.call(Call("bash", {"command": fill}))
            assert "full" in result.content
        finally:
            await environment.close()
        assert (await earned(task, fill, command))[0] == paid
    with pytest.raises(TaskError, match="'disk' must give used_mib"):
        await handed_in(replace(task, parameters={**task.parameters, "disk": {"used_mib": "8"}}))


def test_the_command_imports_what_validates_and_says_why_it_leaves_others_out(tasks, tmp_path):
    folders = write_folders(tmp_path / "in", "greeting")
    write_folders(tmp_path / "in" / "more", "greeting")
    (folders / "more/greeting/solution/solve.sh").write_text("echo 'Hello' > hello.txt")
    write_folders(tmp_path / "in" / "bad", "greeting")
    (folders / "bad/greeting/environment/Dockerfile").write_text("FROM python:3.11-slim\nRUN no-such-program\n")
    out = tmp_path / "tasks.jsonl"
    words = ["tasks", "import", "harbor", str(folders), "--out", str(out), "--validate"]
    finished = CliRunner().invoke(app, words, env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})
    assert finished.exit_code == 0, finished.output
    assert [task.id for task in load_task_set(str(out))["held_out"]] == ["greeting"]
    lines = out.with_name("tasks.jsonl.verdicts.jsonl").read_text().splitlines()
    reasons = {row["id"]: row["reason"] for row in map(json.loads, lines)}
    assert reasons["more/greeting"].startswith("its solution is not paid")
    assert "step 1 of 1 of its Dockerfile, line 2, 'RUN no-such-program'" in reasons["bad/greeting"]
    assert "ended with 127: " in reasons["bad/greeting"]


async def test_files_in_tmp_are_handed_in_too(tasks):
    """Many published tasks ask for an answer in /tmp. The shell's own state there is left out."""
    text = await handed_in(tasks["greeting"], "x=3; echo 7 > /tmp/answer.txt; mkdir /tests/mine")
    entries = read_submission(text).entries
    assert b"tmp/answer.txt" in entries
    assert not {b"tmp/.shell", b"tests/mine", b"tests"} & entries.keys()


async def test_many_and_large_files_are_handed_in_beside_the_text(tasks, monkeypatch):
    """An honest `pip install` changes thousands of files; none of that is the agent's failure."""
    many = "mkdir /opt/many; cd /opt/many; for i in {1..3000}; do echo $i > $i; done"
    large = "for i in {1..9}; do cat /usr/bin/* >> /opt/large; done"
    solution = "cd /app; echo 'Hello, Ada!' > hello.txt"
    text = await handed_in(tasks["greeting"], many, large, solution)
    assert len(text) < 1_000
    assert len(read_submission(text).entries) > 3_000
    assert await load_reward("terminal_verifier").score(tasks["greeting"], text) == {"success": 1.0, "forged": 0.0}
    file = cache_folder() / "submissions" / json.loads(text)["sha256"]
    file.write_bytes(file.read_bytes()[:-100])
    assert (await load_reward("terminal_verifier").score(tasks["greeting"], text))["success"] == 0.0
    file.unlink()
    with pytest.raises(JudgeError, match="Judge it where it was played"):
        await load_reward("terminal_verifier").score(tasks["greeting"], text)


async def test_what_is_handed_in_on_another_machine_travels_in_the_text(tasks):
    text = await handed_in(tasks["greeting"], "head -c 400000 /dev/urandom > /opt/large", remote=True)
    assert b"opt/large" in read_submission(text).entries
    assert not (cache_folder() / "submissions" / json.loads(text)["sha256"]).exists()


def test_a_reason_of_many_folders_is_said_once(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    for name in ("a", "b", "c"):
        folder = write_folders(tmp_path / "in" / name, "greeting") / "greeting"
        (folder / "environment/Dockerfile").write_text("FROM acme:1\n")
    with pytest.raises(TaskError, match="a/greeting, b/greeting, c/greeting: ") as raised:
        load("importers", "harbor")(tmp_path / "in")
    assert str(raised.value).count("acme:1' is not in the cache") == 1


BAD = {
    "no folder with a task.toml": {"task.toml": None},
    "not valid TOML": {"task.toml": "version ="},
    "steps/a/instruction.md cannot be read": {"task.toml": "[[steps]]\nname = 'a'\n"},
    "timeout_sec must be a number above 0, not 'soon'": {"task.toml": "[agent]\ntimeout_sec = 'soon'\n"},
    "environment.memory must be a size .* not 'much'": {"task.toml": "[environment]\nmemory = 'much'\n"},
    "instruction.md cannot be read": {"instruction.md": None},
    "it has no instruction": {"instruction.md": " \n"},
    "the file tests/test.sh is missing": {"tests/test.sh": None},
    "its solution has no solve.sh": {"solution/solve.sh": None, "solution/other.sh": "true"},
    "there is neither a Dockerfile nor the name of an image": {"environment/Dockerfile": None},
    "docker-compose.yaml has no services": {"environment/docker-compose.yaml": "services:"},
    "only ARG may stand above the first FROM": {"environment/Dockerfile": "RUN true\n"},
    "line 2.* ONBUILD": {"environment/Dockerfile": "FROM a\nONBUILD RUN b\n"},
    "copies 'gone', which is not there": {"environment/Dockerfile": "FROM a\nCOPY gone /app\n"},
    "FROM scratch, an image without a shell": {"environment/Dockerfile": "FROM scratch\n"},
    "base image 'b:1' is not in the cache": {"environment/Dockerfile": "FROM b:1\nCOPY --from=b:1 b /app\n"},
    "base image '/' is not in the cache": {"environment/Dockerfile": "FROM /\n"},
    "base image 'acme/base:2' is not in the cache": {"environment/Dockerfile": "FROM acme/base:2\n"},
}


@pytest.mark.parametrize("says", BAD)
def test_a_folder_that_cannot_be_used_is_named_with_the_reason(says, tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    folder = write_folders(tmp_path, "greeting") / "greeting"
    for path, text in BAD[says].items():
        (folder / path).unlink() if text is None else (folder / path).write_text(text)
    with pytest.raises(TaskError, match=says) as raised:
        load("importers", "harbor")(folder)
    assert str(folder) in str(raised.value)


async def test_of_two_reward_files_the_json_decides(tasks, tmp_path):
    folder = write_folders(tmp_path, "greeting") / "greeting"
    script = (
        'echo 1 > /logs/verifier/reward.txt\necho \'{"reward": REWARD, "speed": 9}\' > /logs/verifier/reward.json\n'
    )
    earned = []
    for reward in ("0", "0.5", "true", "", '"1"', "2", "NaN"):
        (folder / "tests" / "test.sh").write_text(script.replace("REWARD", reward))
        [task] = load("importers", "harbor")(folder)["held_out"]
        earned.append((await load_reward("terminal_verifier").score(task, ""))["success"])
    assert earned == [0, 0.5, 1, 0, 0, 0, 0]


@pytest.mark.parametrize("mode", ["public", "no-network"])
async def test_a_task_that_allows_the_agent_no_network_is_played_without(tasks, tmp_path, monkeypatch, mode):
    monkeypatch.setenv("AGENTGYM_BUILD_ALLOW", "127.0.0.1:9")
    folder = write_folders(tmp_path, "greeting") / "greeting"
    (folder / "task.toml").write_text(f"[environment]\nnetwork_mode = '{mode}'\n")
    [task] = load("importers", "harbor")(folder, network="all")["held_out"]
    environment = agentgym.make(task.environment)
    try:
        await environment.reset(task.public(), seed=0)
        result = await environment.call(Call("bash", {"command": "echo proxy: $http_proxy"}))
        assert ("http://" in result.content) is (mode == "public")
    finally:
        await environment.close()
