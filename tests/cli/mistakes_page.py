"""The ten mistakes of a new user as a page: each as a command and the whole of what it prints.

`python tests/cli/mistakes_page.py` writes tests/cli/first-mistakes.md anew; tests/cli/test_ten_mistakes.py compares it.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from unittest.mock import patch

from typer.testing import CliRunner

from agentgym import registry
from agentgym._imports import install_command
from agentgym.cli.app import app

ROOT = Path(__file__).parents[2]
PAGE = Path(__file__).with_name("first-mistakes.md")
DEAD, REFUSING = "http://127.0.0.1:8901", "http://127.0.0.1:8902"
ENTRY_POINTS = "[agentgym.environments]\nacme/typo-v1 = acme_shop:Shopp\nacme/module-v1 = acme_shopp:Shop\n"
INTRODUCTION = """\
<!-- Made by `make reference`, which runs these commands; a test compares it. -->

# Ten first mistakes

This page shows common mistakes. Each section has a command, all that it prints without a terminal, and its exit code.
The error names the cause, the line of your code, and what to do. `beginner.py` is
[tests/cli/beginner.py](beginner.py), which defines environments with one mistake each. Other common errors
are in [when something fails](../../docs/errors.md).
"""
MISTAKES: Sequence[tuple[str, str]] = (
    ("A bug in a tool", "agentgym eval beginner/tool-set-v1 --policy oracle --import beginner.py"),
    ("A reward that returns nothing", "agentgym eval beginner/none-set-v1 --policy oracle --import beginner.py"),
    ("`reset` without its return", "agentgym eval beginner/return-set-v1 --policy oracle --import beginner.py"),
    ("An entry point with a wrong attribute", "agentgym check acme/typo-v1"),
    ("An entry point with a wrong module", "agentgym check acme/module-v1"),
    (
        "A server that does not run",
        f"agentgym eval beginner/right-set-v1 --policy chat_api:{DEAD}/v1#m "
        "--policy-option retry_policy.unreached_s=0.1 --import beginner.py",
    ),
    (
        "A server that refuses the key",
        f"agentgym eval beginner/right-set-v1 --policy chat_api:{REFUSING}/v1#m --import beginner.py",
    ),
    ("An unknown key in a recipe", "agentgym train recipe.toml --set train.step=3"),
    ("An option that TRL does not have", "agentgym train recipe.toml --set train.trl.lr=3"),
    (
        "A task set without a validation split",
        "agentgym train recipe.toml --set tasks.set=beginner/right-set-v1 --import beginner.py",
    ),
    ("An optional part that is not installed", "agentgym view runs"),
)
VARYING = (
    (r"[\d.,]+ (a second|s each)", r"N \1"),
    (r"(the evaluation took) .*", r"\1 T"),
    (r"\d+:\d\d:\d\d left", "T left"),
    (r"failed \d+ times?", "failed N times"),
    (r"played (once|\d+ times) here", "played N times here"),
)
"""What differs from run to run: times, and how often something was tried."""


class _Refusing(BaseHTTPRequestHandler):
    """A chat API that knows no key."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(401)
        self.end_headers()
        self.wfile.write(b"Incorrect API key provided")

    def log_message(self, *arguments: object) -> None:
        """Nothing."""


@contextmanager
def beginners_folder() -> Iterator[Callable[[str], str]]:
    """A folder with the beginner's files, servers and package. Yields what runs a command there: its whole output."""
    with (
        tempfile.TemporaryDirectory() as folder,
        HTTPServer(("127.0.0.1", 0), _Refusing) as server,
        socket.socket() as closed,
    ):
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        closed.bind(("127.0.0.1", 0))  # not listening
        ports = {DEAD: closed.getsockname()[1], REFUSING: server.server_port}
        addresses = {address: f"http://127.0.0.1:{port}" for address, port in ports.items()}
        shutil.copy(Path(__file__).with_name("beginner.py"), folder)
        shutil.copy(ROOT / "recipes" / "quickstart.toml", Path(folder) / "recipe.toml")
        _install_package(Path(folder))
        before = os.getcwd()
        os.chdir(folder)
        try:
            with (
                patch.object(sys, "path", [folder, *sys.path]),
                patch.dict(sys.modules, {"uvicorn": None}),
                patch.dict(os.environ, {"AGENTGYM_STATE_DIR": folder}),
            ):
                registry._points.cache_clear()
                yield lambda command: _output_of(command, addresses)
        finally:
            os.chdir(before)
            registry._points.cache_clear()
            server.shutdown()


def _install_package(folder: Path) -> None:
    information = folder / "acme_shop-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-shop\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(ENTRY_POINTS)
    (folder / "acme_shop.py").write_text("from agentgym import Environment\nclass Shop(Environment): ...\n")


def _output_of(command: str, addresses: dict[str, str]) -> str:
    for address, real in addresses.items():
        command = command.replace(address, real)
    environment = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
    finished = CliRunner().invoke(app, shlex.split(command)[1:], env=environment)
    output = finished.output.rstrip()
    for address, real in addresses.items():
        output = output.replace(real, address)
    output = output.replace(install_command("view"), "pip install -e '/path/to/agentgym[view]'")
    return f"{output}\n[exit code {finished.exit_code}]"


def page() -> str:
    """The page as the commands print now."""
    parts = [INTRODUCTION]
    with beginners_folder() as output_of:
        for title, command in MISTAKES:
            lines = [f"$ {command}", *output_of(command).splitlines()]
            parts.append("\n".join([f"## {title}", "", *(f"    {line}".rstrip() for line in lines), ""]))
    return "\n".join(parts)


def without_varying(text: str) -> str:
    """Text in which times and counts that differ from run to run are replaced."""
    for pattern, replacement in VARYING:
        text = re.sub(pattern, replacement, text)
    return re.sub(r"(N (a second|s each), )?T left", "T left", text)


if __name__ == "__main__":
    if sys.argv[1:] == ["--print"]:
        sys.stdout.write(page())
    else:
        PAGE.write_text(page(), encoding="utf-8")
        sys.stdout.write(f"Written: {PAGE}\n")
