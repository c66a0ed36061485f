"""Starts `agentgym serve environments` as a user would, and waits until it listens."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SERVED = Path(__file__).with_name("served_environments.py")
TOKEN = "a-token-of-the-tests"


@dataclass
class ServerProcess:
    """A running server.

    Attributes:
        url: without a slash at the end.
    """

    process: subprocess.Popen[str]
    url: str

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def kill(self) -> None:
        """End it as nothing can prepare for."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@contextmanager
def environment_server(*options: str, token: str = TOKEN, port: int = 0) -> Iterator[ServerProcess]:
    """A server of the environments in served_environments.py, until the block ends."""
    names = ["test/counter-v1", "test/counter-with-state-v1", "test/workshop-v1", "test/oddities-v1"]
    command = [sys.executable, "-m", "agentgym", "serve", "environments", *names, "--import", str(SERVED)]
    process = subprocess.Popen(
        [*command, "--port", str(port), *options],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"AGENTGYM_ENVIRONMENT_TOKEN": token},
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        match = re.search(r"http://[\d.]+:\d+", line)
        assert match, line
        yield ServerProcess(process, match[0])
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.wait(20)
        assert process.stdout is not None
        process.stdout.close()
