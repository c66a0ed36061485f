"""Whose fault it is when an application of the task's own does not start, or its hook fails at the end.

The guest's class runs here without a browser.
"""

from __future__ import annotations

import io
import sys
import textwrap
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentgym.sandboxes.gui.guest import own_app
from agentgym.sandboxes.gui.guest.own_app import OwnApp, SandboxFailed
from agentgym.sandboxes.gui.guest.sites import SiteFailed

SERVE = "import http.server, os; http.server.HTTPServer(('127.0.0.1', int(os.environ['PORT'])), None).serve_forever()"
TAKEN = """
    import http.server, os, pathlib, socket, subprocess, sys
    port = int(os.environ["PORT"])
    if not os.path.exists("../../taken"):  # as if another program had been quicker
        pathlib.Path("../../taken").write_text("")
        code = (
            f"import socket, time; s = socket.socket(); s.bind(('127.0.0.1', {port})); print(flush=True); "
            "time.sleep(60)"
        )
        rival = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        rival.stdout.readline()
    http.server.HTTPServer(("127.0.0.1", port), None).serve_forever()
"""
STATE = """
    for sign in spoiled ../slow ../../slow; do
        [ -e $sign ] && exec sleep 60
    done
    echo '{"rows": 1}'
"""


@pytest.fixture
def app(tmp_path, monkeypatch):
    """Makes an application with a command; closes what was made."""
    monkeypatch.setattr(own_app, "APPS_FOLDER", str(tmp_path))
    monkeypatch.setattr(own_app, "_prepared", {})
    created = []

    def make(serve=SERVE, key="template", state=STATE, setup=()):
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("serve.py", textwrap.dedent(serve))
            archive.writestr("state.sh", textwrap.dedent(state))
        description = {
            "host": "app.test",
            "path": "/",
            "key": key,
            "packages_key": "none",
            "data": None,
            "command": [sys.executable, "serve.py"],
            "setup": setup,
            "state": ["sh", "state.sh"],
            "start_s": 60.0,
        }
        created.append(OwnApp(description, [zipfile.ZipFile(packed)]))
        return created[-1]

    yield make
    for application in created:
        application.close()


def test_an_application_whose_port_was_taken_is_started_on_another(app, tmp_path):
    application = app(TAKEN)
    application.open()
    assert (tmp_path / "taken").exists()
    assert application.outcome(None, "")["effects"] == {}


def test_no_two_applications_are_given_the_same_port():
    ports = [own_app.free_port() for _ in range(200)]
    assert len(set(ports)) == 200
    assert all(port in own_app.PORTS for port in ports)


def test_only_the_last_prepared_folders_are_kept_and_those_in_use(app, tmp_path, monkeypatch):
    monkeypatch.setattr(own_app, "PREPARED", 1)
    in_use, *ended = (app(key=key) for key in ("in_use", "first", "second", "third"))
    in_use.open()
    for application in ended:
        application.open()
        application.close()
    app(key="third").open()
    assert {path.name for path in tmp_path.iterdir()} - {"run"} == {"in_use", "second", "third"}
    assert in_use.outcome(None, "")["effects"] == {}


def test_a_state_hook_that_is_late_only_where_the_agent_acted_is_the_agents_failure(app, monkeypatch):
    application = app()
    application.open()
    monkeypatch.setattr(own_app, "STATE_S", 1.0)
    with open(f"{application._folder}/spoiled", "w"):
        pass
    with pytest.raises(SiteFailed, match=r"its state command .* timed out"):
        application.outcome(None, "")


def test_a_state_hook_that_is_late_where_no_agent_acted_is_the_machines_failure(app, tmp_path, monkeypatch):
    application = app()
    application.open()
    monkeypatch.setattr(own_app, "STATE_S", 0.3)
    (tmp_path / "slow").write_text("")
    with pytest.raises(SandboxFailed, match="although no agent has acted yet"):
        application.outcome(None, "")


@pytest.mark.parametrize(
    ("state", "complaint"),
    [
        ("echo '[1, 2]'", r"its state command printed b'\[1, 2\]\\n', which is not an object. Print one"),
        ("yes", r"its state command \['sh', 'state.sh'\] prints more than 4 MiB. It should print only what is judged"),
        ("yes | head -c 5000000 >&2; echo no database >&2; exit 3", "ended with 3: (?s:.*)no database$"),
    ],
)
def test_a_state_hook_whose_output_is_of_no_use_is_named_and_takes_no_memory(app, state, complaint):
    with pytest.raises(SiteFailed, match=complaint):
        app(state=state).open()


def test_a_state_that_the_agent_has_made_too_long_is_its_failure(app):
    application = app(state="[ -e spoiled ] && yes; echo '{}'")
    application.open()
    with open(f"{application._folder}/spoiled", "w"):
        pass
    with pytest.raises(SiteFailed, match="prints more than 4 MiB"):
        application.outcome(None, "")


def test_the_first_and_the_last_words_of_a_command_that_fails_are_told(app):
    with pytest.raises(
        SiteFailed, match=r"(?s)its command ended with 0, but must run until the episode ends: cause .* \.\.\. .* end$"
    ):
        app("print('cause', *range(2000), 'end')").open()


def test_a_set_up_that_fails_leaves_no_folder_and_no_process(app, tmp_path):
    setup = ["sh", "-c", "sleep 77 & echo $! > ../child; exit 1"]
    with pytest.raises(SiteFailed, match=r"its setup command .* ended with 1"):
        app(setup=setup).open()
    assert {path.name for path in tmp_path.iterdir()} == {"child"}
    assert is_gone(int((tmp_path / "child").read_text()))


def test_closing_ends_processes_in_sessions_of_their_own_and_leaves_no_file(app, tmp_path):
    application = app(
        "import subprocess\nprint('x' * 1000)\n"
        "child = subprocess.Popen(['sleep', '77'], start_new_session=True)\n"
        "open('../../child', 'w').write(str(child.pid))\n" + SERVE
    )
    application.open()
    application.close()
    assert is_gone(int((tmp_path / "child").read_text()))
    assert not list((tmp_path / "run").iterdir())


def test_folders_are_set_up_beside_each_other_and_one_folder_once(app, tmp_path):
    """Each of two set-ups waits for the other."""
    meet = "echo >> ../runs; touch ../$0; until [ -e ../first ] && [ -e ../second ]; do sleep 0.02; done"
    applications = [app(key=key, setup=["sh", "-c", meet, key]) for key in ("first", "second", "first", "second")]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(OwnApp.open, applications))
    assert (tmp_path / "runs").read_text() == "\n\n"
    assert [application.outcome(None, "")["effects"] for application in applications] == [{}] * 4


def is_gone(process):
    """Whether a process ends within ten seconds, though nobody may ask for its exit status."""
    for _ in range(200):
        try:
            with open(f"/proc/{process}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] in "ZX":
                    return True
        except FileNotFoundError:
            return True
        time.sleep(0.05)
    return False
