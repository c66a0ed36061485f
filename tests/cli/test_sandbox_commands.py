"""`agentgym sandbox ...` as a user types it, on real sandboxes."""

from __future__ import annotations

import dataclasses
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from by_day import cases
from typer.testing import CliRunner

from agentgym import registry
from agentgym.cli.app import app
from agentgym.sandbox import NamespacesBackend
from agentgym.sandbox.limits import LIMITS
from agentgym.testing.backends.table import BEGIN, END, rows_of

pytestmark = pytest.mark.needs_namespaces
ENVIRONMENT_VARIABLES = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"}
AGENTGYM = [sys.executable, "-c", "from agentgym.cli import main; main()", "sandbox"]


def sandbox(*words, stdin=None):
    return CliRunner().invoke(app, ["sandbox", *(str(word) for word in words)], input=stdin, env=ENVIRONMENT_VARIABLES)


def attack(*words):
    return CliRunner().invoke(app, ["dev", "sandbox-attack", *(str(word) for word in words)], env=ENVIRONMENT_VARIABLES)


def test_doctor_names_every_limit_and_its_exit_code_says_whether_all_are_enforced():
    done = sandbox("doctor", "--backend", "namespaces")
    report = json.loads(sandbox("doctor", "--backend", "namespaces", "--json").stdout)
    finding = report["backends"]["namespaces"]
    assert set(finding["limits"]) == set(LIMITS)
    assert report["ok"] == (finding["lacking"] == []) == (done.exit_code == 0)
    for name, limit in finding["limits"].items():
        assert name in done.output
        assert (limit["state"] == "enforced") == (limit["reason"] == "")
    assert "\x1b" not in done.output, "no colour where it is piped"
    assert max(map(len, done.output.splitlines())) <= 80


def test_doctor_says_what_an_ordinary_user_lacks_and_what_to_do():
    if os.geteuid() != 0:
        pytest.skip("only root can become an ordinary user")
    switch = Path(__file__).parents[1] / "sandbox" / "as_ordinary_user.py"
    words = ["-c", AGENTGYM[2], "sandbox", "doctor", "--backend", "namespaces"]
    done = subprocess.run(
        [sys.executable, str(switch), *words], capture_output=True, text=True, env=ENVIRONMENT_VARIABLES, timeout=60
    )
    if "No module named" in done.stderr:
        pytest.skip("the packages of this environment lie where no ordinary user can read")
    assert done.returncode == 1, done.stderr
    assert "not enforced: memory, cpu" in done.stdout or "not enforced: cpu, memory" in done.stdout
    assert "Remedy: run as root" in " ".join(done.stdout.split())


def test_doctor_of_a_backend_that_nobody_registered_names_those_there_are():
    done = sandbox("doctor", "--backend", "namespacez")
    assert done.exit_code == 2
    assert "Did you mean 'namespaces'?" in done.stderr


def test_one_command_in_a_shell_gives_its_output_and_its_exit_code():
    command = "id -u; printf '\\033[2J\\377'; echo oops >&2; exit 3"
    done = subprocess.run(
        [*AGENTGYM, "shell", "-c", command], capture_output=True, env=ENVIRONMENT_VARIABLES, timeout=120
    )
    assert done.returncode == 3
    assert (done.stdout, done.stderr) == (b"1000\n\x1b[2J\xff", b"oops\n"), "bytes go into a pipe as they were written"


@pytest.mark.parametrize(
    ("command", "code"), [("kill -9 $$", 137), ("no-such-program", 127), ("sleep 9", 124), ("true", 0)]
)
def test_a_command_that_fails_says_so_as_a_shell_does(command, code):
    done = sandbox("shell", "--timeout", 0.3, "-c", command)
    assert done.exit_code == code


def test_lines_of_a_shell_share_directory_and_variables():
    lines = """
        cd /tmp
        export WORD=hello; plain=lost
        pwd; echo $WORD $plain
        mkdir deep; cd deep
        false
        echo "it's $? $(pwd)"
        :usage
        :reset
        ls -A /tmp | wc -l
        exit 4
        echo never
    """
    done = sandbox("shell", stdin=lines)
    assert done.exit_code == 4
    lines_printed = done.output.splitlines()
    assert "MiB at the peak" in lines_printed.pop(3)
    assert lines_printed == ["/tmp", "hello", "it's 0 /tmp/deep", "The sandbox is empty again.", "0"]


def test_a_shell_has_the_limits_that_it_is_asked_for():
    done = sandbox("shell", "--accept-weaker", "all", "--disk", 4, "-c", "head -c 9M /dev/zero > big; stat -c %s big")
    assert int(done.stdout.split()[-1]) <= 4 * 2**20
    assert sandbox("shell", "--memory", 4, "-c", "true").exit_code == 2
    assert "no-such-image" in sandbox("shell", "--image", "no-such-image", "-c", "true").stderr


def test_what_a_terminal_would_obey_is_shown_instead_and_ctrl_c_ends_one_line():
    """A person at a terminal, played by a pseudo-terminal."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(ENVIRONMENT_VARIABLES)
        os.execv(AGENTGYM[0], [*AGENTGYM, "shell"])
    try:
        seen = wait_for(terminal, b"/work$ ")
        os.write(terminal, b"printf '\\033]0;title\\007'; cd /tmp\n")
        seen = wait_for(terminal, b"/tmp$ ")
        assert b"\x1b]0" not in seen
        assert "␛]0;title␇".encode() in seen
        os.write(terminal, b"echo begin; sleep 60\n")
        time.sleep(1)
        os.write(terminal, b"\x03")
        assert b"interrupted" in wait_for(terminal, b"/tmp$ ")
        os.write(terminal, b"echo still here\n")
        assert b"\nstill here" in wait_for(terminal, b"/tmp$ ").replace(b"\r", b"")
        os.write(terminal, b"half a li")
        wait_for(terminal, b"half a li")
        time.sleep(0.5)  # readline sees a Ctrl-C only once it waits for the next key
        os.write(terminal, b"\x03")
        wait_for(terminal, b"/tmp$ ")
        os.write(terminal, b"\x04")
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        pid = 0
    finally:
        os.close(terminal)
        if pid:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def wait_for(terminal: int, words: bytes) -> bytes:
    seen = b""
    while not re.sub(rb"\x1b\[\?2004[hl]", b"", seen).endswith(words):
        ready, _, _ = select.select([terminal], [], [], 60)
        assert ready, f"waited in vain for {words!r} after {seen!r}"
        seen += os.read(terminal, 4096)
    return seen


@pytest.mark.parametrize("command", cases(("ps", "clean"), by_day=["ps"]))
def test_a_backend_that_is_not_here_is_passed_over_unless_it_was_asked_for(command, tmp_path):
    """Docker's SDK without a daemon, or without the SDK: what the other backends have to say is said."""
    nowhere = {**ENVIRONMENT_VARIABLES, "DOCKER_HOST": f"unix://{tmp_path}/none.sock"}
    words = [*AGENTGYM, command]
    done = subprocess.run(words, env=nowhere, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "docker was passed over: " in done.stderr
    named = subprocess.run([*words, "--backend", "docker"], env=nowhere, capture_output=True, text=True, timeout=60)
    assert named.returncode == 2
    assert "passed over" not in named.stderr


def test_ps_shows_what_another_process_runs_and_clean_leaves_it_alone():
    other = subprocess.Popen(
        [*AGENTGYM, "shell"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT_VARIABLES
    )
    try:
        assert other.stdin is not None
        assert other.stdout is not None
        other.stdin.write(b"echo ready\n")
        other.stdin.flush()
        assert other.stdout.readline() == b"ready\n"
        listed = sandbox("ps")
        assert re.search(rf"^namespaces +\d+ +host +{other.pid} ", listed.output, re.MULTILINE), listed.output
        assert max(map(len, listed.stdout.splitlines())) <= 80
        owned = [row for row in json.loads(sandbox("ps", "--json").stdout) if row["owner"] == other.pid]
        assert owned
        assert not any(row["orphaned"] for row in owned), owned
        assert "would be ended" in sandbox("clean", "--dry-run").output
        assert sandbox("clean", "--backend", "namespaces").exit_code == 0
        other.stdin.write(b"echo alive\n")
        other.stdin.flush()
        assert other.stdout.readline() == b"alive\n"
    finally:
        other.communicate(timeout=60)


def test_attacks_are_shown_kept_and_put_beside_earlier_ones(tmp_path):
    earlier_record, document = tmp_path / "first.json", tmp_path / "security.md"
    some = ("--only", "hard_links", "--only", "io_uring")
    done = attack("--backend", "namespaces", *some, "--label", "first", "--out", earlier_record)
    assert done.exit_code == 0, done.output
    assert "first (ns" in done.output
    assert "2 of 2 held." in done.output
    assert attack("--backend", "namespaces", *some, "--out", document).exit_code == 0
    document.write_text(f"# Before\n{BEGIN}\nearlier\n{END}\nafter\n")
    done = attack("--backend", "namespaces", *some, "--beside", earlier_record, "--label", "second", "--out", document)
    assert done.exit_code == 0, done.output
    words = document.read_text()
    assert words.startswith("# Before")
    assert words.endswith("after\n")
    assert "earlier" not in words
    assert "| first | second |" in words
    assert [name for name, _ in rows_of(words)] == ["io_uring", "hard_links"]
    assert "| held | held |" in words


class Lax(NamespacesBackend):
    """Gives more descriptors than the spec allows."""

    async def create(self, spec, *, snapshot=None):
        return await super().create(dataclasses.replace(spec, open_files=900), snapshot=snapshot)


def test_an_attack_that_is_not_held_ends_with_1_and_says_what_got_through(tmp_path, monkeypatch):
    document = tmp_path / "table.md"
    monkeypatch.setitem(registry._registered["backends"], "lax", Lax)
    done = attack("--backend", "lax", "--only", "open_files_filler", "--out", document)
    assert done.exit_code == 1
    assert "NOT HELD" in done.output
    assert "files were open at once" in done.output
    assert "**not held** [1]" in document.read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--only", "hard_linkz"), "Did you mean 'hard_links'?"),
        (("--beside", "nowhere.json"), "nowhere.json is not a file of attack results"),
        (("--out", "plain.md"), "has no place for the table"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_attacked(words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("plain.md").write_text("no markers")
    done = attack(*words)
    assert done.exit_code == 2
    assert message in done.stderr
