"""Peers to compare with: drivers in benchmarks/peers/, each run in the virtual environment of its package.

make bench-peers        # makes those environments
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandbox_calls import PYTHON

FOLDER = Path(__file__).parent / "peers"
WITH_PEERS = ("sandbox_peers", "episodes", "warehouse")
"""Benchmarks that have a table PEERS."""
_DRIVER_S = 300


@dataclass(frozen=True)
class Peer:
    """One row of a table. `package`: the package in its virtual environment; empty to use the current environment."""

    name: str
    driver: str
    isolation: str = ""
    package: str = ""
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, venvs: Path, *arguments: str) -> dict[str, Any] | str:
        """Return the last line of the driver's output, or the reason why there is none."""
        python = venv_of(venvs, self.package) / "bin" / "python" if self.package else Path(sys.executable)
        if not python.exists():
            return f"not installed: make bench-peers PEERS={venvs}"
        # every peer that runs the host's Python runs the same one
        environment = {**os.environ, **self.environment, "PATH": f"{Path(PYTHON).parent}:{os.environ['PATH']}"}
        command = [str(python), str(FOLDER / f"{self.driver}.py"), *arguments]
        try:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_DRIVER_S)
        except subprocess.TimeoutExpired:
            return f"no end within {_DRIVER_S} s"
        if done.returncode != 0:
            return _why(done.stderr)
        figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return figures


def _why(stderr: str) -> str:
    """Return the line of a traceback that names the error."""
    lines = [line for line in stderr.splitlines() if line and not line[0].isspace() and "Error" in line]
    return (lines or stderr.splitlines() or ["it ended without a word"])[-1].split("Error: ", 1)[-1][:200]


def venv_of(venvs: Path, package: str) -> Path:
    """Return the folder of a package's virtual environment, named like the package without extras and version."""
    return venvs / package.partition("[")[0].partition("=")[0]


def install(venvs: Path) -> None:
    """Make the missing virtual environments. If one cannot be made, this is printed, and its row has no figures."""
    peers = [peer for name in WITH_PEERS for peer in importlib.import_module(name).PEERS]
    for package in sorted({peer.package for peer in peers if peer.package}):
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
