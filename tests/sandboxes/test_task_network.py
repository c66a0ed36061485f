"""What the commands of a terminal task may reach: nothing, unless its tests install something or its user says so."""

from __future__ import annotations

import os
import subprocess

import pytest

from agentgym import SandboxSpec, SandboxUnavailable
from agentgym.errors import TaskError
from agentgym.sandboxes.code.terminal import task_network
from agentgym.sandboxes.code.terminal.task_network import (
    NO_NETWORK,
    check_reached,
    checked_network,
    network_of_agent,
    network_of_tests,
)
from agentgym.sandboxes.code.terminal.uv import INSTALL, SCRIPT, WRAPPER, with_installer


@pytest.fixture(autouse=True)
def host(monkeypatch):
    """A host with one package index, which the indexes are asked for anew."""
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    task_network._indexes.cache_clear()
    yield
    task_network._indexes.cache_clear()


def files_with(script: str):
    return {"test.sh": (script.encode(), 0o755), "test_outputs.py": (b"def test(): pass\n", 0o644)}


@pytest.mark.parametrize(
    "line",
    [
        "apt-get update; apt-get install -y curl",
        "pip3 install --quiet pytest",
        "python -m pip install x",
        "npm ci",
        "npx jest",
    ],
)
async def test_only_tests_that_install_something_have_a_network(line):
    assert (await network_of_tests("tests", files_with(f"#!/bin/bash\n{line}\npytest /tests\n"))).names
    assert await network_of_tests("none", files_with(line)) == NO_NETWORK
    assert await network_of_tests("tests", files_with("pytest /tests/test_outputs.py -rA")) == NO_NETWORK


async def test_the_agent_has_no_network_unless_its_user_says_so(monkeypatch):
    assert await network_of_agent("none") == await network_of_agent("tests") == NO_NETWORK
    network = await network_of_agent("all")
    assert "127.0.0.1:9" in network.names
    assert not any(rule.startswith("*") for rule in network.names)
    assert network.spec(SandboxSpec()).network == network.names
    assert NO_NETWORK.spec(SandboxSpec()) == SandboxSpec()
    with pytest.raises(TaskError, match="network must be one of none, tests, all, not 'public'"):
        checked_network("public")


def test_uv_gets_its_words_but_for_the_choice_of_a_python(tmp_path):
    """The wrapper is a shell script, so that it runs in any image."""
    (tmp_path / "show").write_text('#!/bin/sh\nprintf "[%s]" "$@"\n')
    (tmp_path / "show").chmod(0o755)
    (tmp_path / "uvx").write_text(WRAPPER.replace("{program}", str(tmp_path / "show")))
    words = ["-p", "3.13", "-w", "pytest==8.4.1", "--python=3.12", "-p3.11", "--python", "3.9", "pytest", "a b", ""]
    done = subprocess.run(["sh", str(tmp_path / "uvx"), *words], capture_output=True, text=True, check=True)
    assert done.stdout == "[-w][pytest==8.4.1][pytest][a b][]"


@pytest.mark.parametrize(
    ("command", "becomes"),
    [
        ("curl -LsSf https://astral.sh/uv/0.5.11/install.sh | sh", f"sh {INSTALL}"),
        ("wget -qO- https://astral.sh/uv/install.sh | bash -s -- -q && uv -V", f"sh {INSTALL}&& uv -V"),
        ("curl https://astral.sh/uv/install.sh | env UV_INSTALL_DIR=/bin sh", f"UV_INSTALL_DIR=/bin sh {INSTALL}"),
        ("curl https://astral.sh/ruff/install.sh | sh", "curl https://astral.sh/ruff/install.sh | sh"),
        (
            "curl https://astral.sh/uv/install.sh -o uv.sh; cat x | sh",
            "curl https://astral.sh/uv/install.sh -o uv.sh; cat x | sh",
        ),
    ],
)
def test_the_installer_of_uv_is_replaced(command, becomes):
    assert with_installer(command) == becomes


def test_what_replaces_the_installer_of_uv_leaves_its_programs_and_their_path(tmp_path):
    (tmp_path / "inside/bin").mkdir(parents=True)
    for name in ("uv", "uvx"):
        (tmp_path / "inside/bin" / name).write_text(f"#!/bin/sh\necho {name} runs\n")
        (tmp_path / "inside/bin" / name).chmod(0o755)
    script = SCRIPT.replace("{inside}", str(tmp_path / "inside")) + '. "$HOME/.local/bin/env"; uv; uvx'
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "uv runs\nuvx runs\n"


class Seen:
    """A sandbox of which only the connections count."""

    def __init__(self, *connections: object) -> None:
        self.connections = connections


def test_an_index_that_does_not_answer_is_this_hosts_fault_and_a_refused_one_is_not():
    from agentgym.sandbox.contract import Connection

    refused = Connection("evil.test", 443, False, reason="evil.test:443 is not on the allow list of this sandbox: a.")
    dead = Connection("index.test", 443, False, reason="index.test has no known address: Name not known.")
    check_reached(Seen(refused), "The test script")
    check_reached(Seen(dead), "The test script", 1)
    with pytest.raises(SandboxUnavailable, match=r"The test script needs index.test"):
        check_reached(Seen(refused, dead), "The test script")
