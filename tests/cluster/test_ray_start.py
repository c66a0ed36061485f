"""Clusters of Ray that `agentgym cluster` starts, joins and ends here, and what is said where one cannot be used."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from simulated_cluster import simulated_cluster
from typer.testing import CliRunner

from agentgym import __version__
from agentgym.cli.app import app
from agentgym.cluster.ray_access import MODE_VARIABLE
from agentgym.cluster.ray_backend import RayBackend
from agentgym.cluster.ray_nodes import _CURRENT_CLUSTER, connect, fault_in
from agentgym.cluster.ray_start import end_nodes
from agentgym.errors import ClusterError
from agentgym.testing.backends.testbed import SPEC

needs_ray = pytest.mark.skipif(
    find_spec("ray") is None and not os.environ.get("AGENTGYM_CI_RAY"),
    reason="Ray is not installed: make setup-cluster",
)
pytestmark = pytest.mark.together("a cluster of Ray")
AGENTGYM = [sys.executable, "-m", "agentgym"]
WITHOUT_RAY = [
    sys.executable,
    "-c",
    "import runpy, sys; sys.modules['ray'] = None; runpy.run_module('agentgym', run_name='__main__', alter_sys=True)",
]


def agentgym(*arguments: str) -> str:
    """What the command prints; it must succeed."""
    done = subprocess.run([*AGENTGYM, *arguments], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def refused(*arguments: str, command: list[str] = AGENTGYM) -> str:
    """The error that the command ends with."""
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=240)
    assert done.returncode == 2, done.stdout + done.stderr
    return " ".join(done.stderr.split())


@needs_ray
@pytest.mark.needs_namespaces
def test_the_command_line_checks_a_cluster_and_plays_on_it(cluster):
    probed = agentgym("cluster", "probe", "--address", cluster.address)
    assert "2 nodes can play episodes." in probed
    tasks_there = ("text/number-guess-v1:train", "--limit", "3", "--engine", "ray", "--address", cluster.address)
    assert "100%" in agentgym("rollout", *tasks_there, "--nodes", "2")


@pytest.fixture(params=["a token", pytest.param("no token", marks=pytest.mark.thorough)])
def own_home(request, monkeypatch) -> Iterator[Path]:
    """A home and a folder for temporary files of a user's own, whose nodes have ended afterwards.

    In one of two a program has written Ray's token before, as a plain `ray.init()` does.
    """
    folder = Path(tempfile.mkdtemp(prefix="ag"))  # the path of a socket is short, and pytest's are not
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setenv("RAY_TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("HOME", str(folder))
    if request.param == "a token":
        write_token(folder, "a" * 64)
    yield folder
    end_nodes()
    shutil.rmtree(folder)


def write_token(home: Path, token: str) -> None:
    file = home / ".ray" / "auth_token"
    file.parent.mkdir(exist_ok=True)
    file.write_text(token)


@needs_ray
@pytest.mark.thorough
def test_down_ends_what_up_started_and_nothing_else(cluster, own_home):
    began = agentgym("cluster", "up", "--port", "0", "--cpus", "1")
    has_token = (own_home / ".ray" / "auth_token").exists()
    assert ("It asks for Ray's token" in began) == has_token
    address = re.search(r"cluster at (\S+:\d+) runs", began)[1]
    agentgym("cluster", "up", "--join", address, "--cpus", "1")
    assert agentgym("cluster", "status").count("yes") == 2
    if has_token:
        write_token(own_home, "b" * 64)  # as of another host
        for command in (["up", "--join", address], ["status"]):
            error = refused("cluster", *command)
            assert "requires Ray's token, but this process sends another one." in error
            assert "Copy ~/.ray/auth_token from the head's host to this host" in error
    ended = [CliRunner().invoke(app, ["cluster", "down"]).stdout for _ in range(2)]
    assert ended == ["Ended 2 nodes.\n", "Ended 0 nodes.\n"]
    error = refused("cluster", "status", "--address", address)
    assert re.search(r"There is no usable Ray cluster at .*Start one by `agentgym cluster up`", error)
    joining = CliRunner().invoke(app, ["cluster", "up", "--join", address])
    assert "No program answers at" in joining.stderr
    assert joining.exit_code == 2
    assert len(connect(cluster.address)) == 2


@needs_ray
def test_a_process_of_these_tests_finds_its_own_clusters_alone(cluster):
    """Ray ends every process that is connected to a cluster that has gone: a worker went with that of another one."""
    own = Path(os.environ["RAY_TMPDIR"])
    assert own.name.endswith(str(os.getpid()))
    assert _CURRENT_CLUSTER.is_relative_to(own)
    assert _CURRENT_CLUSTER.read_text() == cluster.address


@needs_ray
def test_a_process_is_connected_to_one_cluster_and_says_so_where_it_is_given_another(cluster):
    connect(cluster.address)
    port = cluster.address.rpartition(":")[2]
    assert len(connect("auto")) == len(connect(f"localhost:{port}")) == 2
    for other in (f"localhost:{int(port) + 1}", f"203.0.113.7:{port}"):
        with pytest.raises(ClusterError, match=rf"connected to the Ray cluster at {cluster.address}.*one at {other}"):
            connect(other)


HANDLED = """
import os, signal, sys
from agentgym.cluster.ray_nodes import connect
signal.signal(signal.SIGTERM, lambda *_: print("the process's own handler"))
connect(sys.argv[1])
os.kill(os.getpid(), signal.SIGTERM)
"""


@needs_ray
def test_a_process_that_connects_keeps_its_own_handler_of_sigterm(cluster):
    """Ray's prints a C++ stack trace and exits."""
    done = subprocess.run([sys.executable, "-c", HANDLED, cluster.address], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "the process's own handler\n"), done.stderr
    assert "stack trace" not in done.stderr


@needs_ray
def test_a_cluster_with_fewer_nodes_than_wanted_is_named(cluster):
    with pytest.raises(ClusterError, match=r"has 2 nodes, but machine.nodes asks for 9.*cluster up --join"):
        connect(cluster.address, 9)


@needs_ray
@pytest.mark.thorough
def test_a_listener_that_is_no_head_of_a_cluster_is_named_and_not_waited_for(monkeypatch):
    """Ray itself would try to reach it for minutes."""
    monkeypatch.setenv("RAY_gcs_rpc_server_connect_timeout_s", "1")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        error = refused("cluster", "status", "--address", address)
    assert f"The program at {address} does not answer as the head of a Ray cluster" in error


@needs_ray
@pytest.mark.parametrize("command", ["rollout", "eval"])
def test_no_folder_is_made_for_episodes_of_a_cluster_that_is_not_there(command, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    options = ("--policy", "oracle", "--engine", "ray", "--address", address, "--out", str(tmp_path / "run"))
    assert f"There is no usable Ray cluster at '{address}'" in refused(command, "text/number-guess-v1", *options)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "arguments", ["cluster status", "cluster up", "cluster probe", "rollout text/number-guess-v1:train --engine ray"]
)
def test_without_ray_the_extra_is_named_whether_it_is_installed_here_or_not(arguments):
    error = refused(*arguments.split(), command=WITHOUT_RAY)
    assert re.search(r"A cluster needs the package ray, which is not installed\. Run: .*\[cluster\]", error)
    assert "Traceback" not in error


GOOD = {"host": "h", "pid": 1, "nice": 0, "cpus": 2, "python": "3.11", "unavailable": "", "missing": {}, "level": "ns"}


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"nice": 19}, "run at nice 19, which starves sandboxes. Start Ray there by `agentgym cluster up`"),
        ({"agentgym": "0.0.1"}, "it has agentgym 0.0.1, and this process"),
        ({"unavailable": "no user namespaces"}, "sandboxes cannot be made there: no user namespaces"),
        ({"broken": "no worker answered"}, "no worker answered"),
        ({}, ""),
    ],
)
def test_a_node_that_cannot_be_used_says_why(change, fault):
    assert fault in fault_in(GOOD | {"agentgym": __version__} | change)
    assert bool(fault) == bool(fault_in(GOOD | {"agentgym": __version__} | change))


@needs_ray
@pytest.mark.needs_namespaces
@pytest.mark.thorough
async def test_a_token_written_after_the_start_of_a_cluster_keeps_no_driver_away(tmp_path, monkeypatch):
    """As a plain `ray.init()` writes it, on a host whose cluster runs already and asks for none."""
    import ray

    ray.shutdown()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv(MODE_VARIABLE, raising=False)
    with simulated_cluster(1) as started_before:
        (tmp_path / ".ray").mkdir()
        (tmp_path / ".ray" / "auth_token").write_text("a" * 64)
        backend = RayBackend(started_before.address)
        try:
            assert (await (await backend.create(SPEC)).exec(["echo", "here"])).stdout == b"here\n"
        finally:
            await backend.close()
