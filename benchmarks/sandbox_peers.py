"""agentgym and what a user would take instead, side by side: the same work by drivers in benchmarks/peers/.

Each driver runs in the virtual environment of its package, several times in turn with the others.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from rich.table import Table
from sandbox_calls import PYTHON

FOLDER = Path(__file__).parent / "peers"
WORKS = {"life": "create, 2 files, script, read, close", "script": "python3 script.py", "true": "true"}
_DRIVER_S = 300
_NO_ISOLATION = "nothing"
_CONTAINER = "container"


@dataclass(frozen=True)
class Peer:
    """One row of the table. `package`: what its virtual environment holds; empty if this one will do."""

    name: str
    driver: str
    isolation: str
    package: str = ""
    environment: dict[str, str] = field(default_factory=dict)


PEERS = (
    Peer("agentgym, namespaces", "agentgym_namespaces", "namespaces + seccomp + cgroup"),
    Peer("agentgym, namespaces, run_python", "agentgym_namespaces", "as above", environment={"PEER_WARM": "1"}),
    Peer("agentgym, docker", "agentgym_namespaces", "hardened container", environment={"PEER_BACKEND": "docker"}),
    Peer("subprocess", "plain_subprocess", _NO_ISOLATION),
    Peer("bubblewrap per call", "bubblewrap", "namespaces"),
    Peer("Docker SDK exec", "docker_sdk", _CONTAINER, "docker"),
    Peer("Inspect local", "inspect_sandbox", _NO_ISOLATION, "inspect-ai"),
    Peer("Inspect docker", "inspect_sandbox", _CONTAINER, "inspect-ai", {"PEER_BACKEND": "docker"}),
    Peer("SWE-ReX local", "swe_rex_local", _NO_ISOLATION, "swe-rex"),
    Peer("llm-sandbox docker", "llm_sandbox_docker", _CONTAINER, "llm-sandbox[docker]"),
)


@dataclass
class Found:
    """What one peer's runs gave: milliseconds by work, or why there are none."""

    times: dict[str, list[float]] = field(default_factory=lambda: {work: [] for work in WORKS})
    version: str = ""
    reason: str = ""


def measure(venvs: Path, rounds: int, repeats: int) -> dict[str, Found]:
    """Run every driver `rounds` times in turn. Returns: by the peer's name."""
    found = {peer.name: Found() for peer in PEERS}
    for _ in range(rounds):
        for peer in PEERS:
            if not found[peer.name].reason:
                _add(found[peer.name], peer, venvs, repeats)
    return found


def _add(found: Found, peer: Peer, venvs: Path, repeats: int) -> None:
    python = venv_of(venvs, peer.package) / "bin" / "python" if peer.package else Path(sys.executable)
    if not python.exists():
        found.reason = f"not installed: make bench-peers PEERS={venvs}"
        return
    # every peer that runs the host's Python runs the same one
    environment = {**os.environ, **peer.environment, "PATH": f"{Path(PYTHON).parent}:{os.environ['PATH']}"}
    command = [str(python), str(FOLDER / f"{peer.driver}.py"), f"--repeats={repeats}"]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_DRIVER_S)
    except subprocess.TimeoutExpired:
        found.reason = f"no end within {_DRIVER_S} s"
        return
    if done.returncode != 0:
        found.reason = _why(done.stderr)
        return
    said = json.loads(done.stdout.splitlines()[-1])
    found.version = said["version"]
    for work, values in said["times"].items():
        found.times[work] += values


def _why(stderr: str) -> str:
    """The line of a traceback that names the error."""
    lines = [line for line in stderr.splitlines() if line and not line[0].isspace() and "Error" in line]
    return (lines or stderr.splitlines() or ["it ended without a word"])[-1].split("Error: ", 1)[-1][:200]


def table_of(found: dict[str, Found]) -> Table:
    """Medians, and how many times as long as the first row each takes."""
    ours = {work: median(values) for work, values in found[PEERS[0].name].times.items() if values}
    table = Table("", "isolation", *(f"{what}, ms" for what in WORKS.values()), title="the same work, side by side")
    for peer in PEERS:
        one = found[peer.name]
        if one.reason:
            table.add_row(peer.name, peer.isolation, f"[dim]{one.reason}")
            continue
        cells = []
        for work, values in one.times.items():
            ratio = f" ({median(values) / ours[work]:.1f} x)" if work in ours and peer is not PEERS[0] else ""
            cells.append(f"{median(values):.1f}{ratio}")
        table.add_row(f"{peer.name} {one.version}", peer.isolation, *cells)
    return table


def markdown(found: dict[str, Found]) -> str:
    """The same for docs/benchmarks.md; empty if nothing was measured."""
    lines = [f"| | isolation | {', ms | '.join(WORKS.values())}, ms |", "|---|---|" + "---|" * len(WORKS)]
    for peer in PEERS if found else ():
        one = found[peer.name]
        cells = (
            [one.reason, *[""] * (len(WORKS) - 1)] if one.reason else [f"{median(v):.1f}" for v in one.times.values()]
        )
        lines.append(f"| {peer.name} {one.version} | {peer.isolation} | {' | '.join(cells)} |")
    return "\n".join(lines) if found else ""


def as_data(found: dict[str, Found]) -> dict[str, object]:
    """For the JSON file: medians by peer and work, with versions and reasons."""
    return {
        name: {
            "version": one.version, "reason": one.reason,
            "ms": {work: median(values) for work, values in one.times.items() if values},
        }
        for name, one in found.items()
    }  # fmt: skip


def venv_of(venvs: Path, package: str) -> Path:
    return venvs / package.partition("[")[0]


def install(venvs: Path) -> None:
    """Make the virtual environments that are missing. One that cannot be made is named, and its row has no figures."""
    for package in sorted({peer.package for peer in PEERS if peer.package}):
        folder = venv_of(venvs, package)
        if (folder / "installed").exists():
            continue
        try:
            subprocess.run([PYTHON, "-m", "venv", "--clear", str(folder)], check=True)
            subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "-qq", package], check=True)
        except subprocess.CalledProcessError as error:
            subprocess.run(["rm", "-rf", str(folder)], check=True)
            print(f"{package} could not be installed: {error}")
            continue
        (folder / "installed").touch()
        print(f"installed {package} in {folder}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="make the virtual environments of the peers")
    parser.add_argument("venvs", type=Path)
    install(parser.parse_args().venvs)
