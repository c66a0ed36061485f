"""The ten mistakes that a new user makes first: each is answered with its cause, its place and what to do."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import mistakes_page
import pytest
from typer.testing import CliRunner

from agentgym.cli.app import app

RECIPE = Path(__file__).parents[2] / "recipes" / "quickstart.toml"
BEGINNER = str(Path(__file__).with_name("beginner.py"))


def agentgym(*words):
    return CliRunner().invoke(app, list(words), env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})


def evaluate(name, *words, policy="oracle"):
    return agentgym("eval", f"beginner/{name}-set-v1", "--policy", policy, "--import", BEGINNER, *words)


@pytest.mark.parametrize("command", ["eval", "rollout"])
@pytest.mark.parametrize(
    ("name", "line", "cause"),
    [
        (
            "tool",
            "return str(len(shelf) / 0)",
            r"ZeroDivisionError: division by zero at PLACE \(while",
        ),
        ("none", "def outcome(self, episode):", r"RewardError: ReturnsNone returned None, but a reward .* See PLACE\."),
        ("return", "def reset", r"TypeError: NoReturn.reset returned None, .*`return task.opening\(\)`. See PLACE\."),
    ],
    ids=["tool", "none", "return"],
)
def test_a_bug_of_the_user_is_named_with_its_line_and_the_command_fails(name, line, cause, command):
    finished = agentgym(
        command, f"beginner/{name}-set-v1:held_out", "--policy", "oracle", "--import", BEGINNER, "--group-size", "2"
    )
    assert finished.exit_code == 1
    number = max(n for n, text in enumerate(Path(BEGINNER).read_text().splitlines(), 1) if line in text)
    assert re.search("6 x " + cause.replace("PLACE", rf"\S*beginner\.py:{number}"), finished.stdout)
    assert "nan" not in finished.stdout
    assert "Every episode failed; the causes are above. Run again with --debug" in finished.stderr
    assert "Traceback" not in finished.stderr


def test_debug_shows_the_traceback_once():
    finished = evaluate("tool", "--debug")
    assert finished.exit_code == 1
    assert finished.stderr.count("Traceback") == 1
    assert "return str(len(shelf) / 0)" in finished.stderr


def test_without_a_mistake_the_command_succeeds():
    assert evaluate("right").exit_code == 0


def test_a_dead_server_is_one_line():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    finished = evaluate("right", "--infra-retries", "0", policy=f"chat_api:{address}#m")
    assert finished.exit_code == 1
    server = re.escape(address.removesuffix("/v1"))
    assert re.search(rf"ConnectError.*Check that the server at {server} is running", finished.stdout)


class Refusing(BaseHTTPRequestHandler):
    """A chat API that knows no key."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(401)
        self.end_headers()
        self.wfile.write(b"Incorrect API key")

    def log_message(self, *arguments):
        """Nothing."""


def test_a_server_that_refuses_the_key_is_one_line_with_its_answer():
    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        finished = evaluate("right", policy=f"chat_api:http://127.0.0.1:{server.server_port}/v1#m")
        server.shutdown()
    assert finished.exit_code == 1
    assert re.search(r"3 x PolicyError: .*status 401: .*Incorrect API key", finished.stdout)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["train.step=3"], "there is no key 'train.step'. Did you mean 'steps'?"),
        (["train.trl.lr=3"], "TRL's GRPOConfig has no option 'lr'."),
        (["tasks.set=beginner/right-set-v1"], "has no tasks in its split 'validation'"),
    ],
    ids=["key", "trl", "split"],
)
def test_a_wrong_recipe_is_one_line_and_writes_nothing(overrides, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = [word for override in overrides for word in ("--set", override)]
    finished = agentgym("train", str(RECIPE), *words, "--import", BEGINNER)
    assert finished.exit_code == 2
    assert message in finished.stderr
    assert "Traceback" not in finished.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.thorough  # it imports all that trains for one message; the tests above and below make the mistakes
def test_the_page_of_first_mistakes_shows_what_the_commands_print():
    """In a process of its own: here the beginner's modules are imported already."""
    command = [sys.executable, mistakes_page.__file__, "--print"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    expected = mistakes_page.PAGE.read_text(encoding="utf-8")
    assert mistakes_page.without_varying(printed) == mistakes_page.without_varying(expected), "run `make reference`"


def test_a_hub_model_that_cannot_be_loaded_is_one_line():
    finished = evaluate("right", policy="acme/no-such-model")
    assert finished.exit_code == 2
    assert "No model can be loaded from 'acme/no-such-model'" in finished.stderr
    assert "Traceback" not in finished.stderr
