"""Runs inside the sandbox: runs code in a separate process, with a client for the apps, which are outside.

Standard library only. The first line on standard input is the request. While the code runs, each line `{"app": ...,
"api": ..., "arguments": ...}` that it sends asks the host to call an API; the host answers with `value` or `error`. The
last line is `{"output": ..., "cut": ..., "status": ...}`.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import traceback
from typing import Any

MAX_CHARS = 16_000  # maximum number of characters of output
WRITTEN = 1_000_000  # maximum number of bytes of output, or of any file


class AppError(Exception):
    """An API has refused a call; the message says why."""


class AppClient:
    """The APIs of an app as methods: `apis.mail.search(text="rent")`."""

    def __init__(self, name: str, apis: dict[str, list[str]]) -> None:
        self._name, self._apis = name, apis

    def __getattr__(self, api: str) -> Any:
        if api.startswith("_") or api not in self._apis:
            raise AttributeError(f"The app {self._name} has no API {api!r}. It has: {', '.join(self._apis)}.")

        def call(*values: Any, **arguments: Any) -> Any:
            named = dict(zip(self._apis[api], values, strict=False))
            write({"app": self._name, "api": api, "arguments": {**named, **arguments}})
            reply = read()
            if "error" in reply:
                raise AppError(reply["error"])
            return reply["value"]

        return call


class AllApps:
    """The apps as attributes."""

    def __init__(self, apps: dict[str, dict[str, list[str]]]) -> None:
        for name, apis in apps.items():
            setattr(self, name, AppClient(name, apis))


def read() -> Any:
    """Return the next line. It is read byte by byte, so that this process takes no input meant for the child."""
    line = bytearray()
    while (byte := os.read(0, 1)) != b"\n":
        if not byte:
            os._exit(0)
        line += byte
    return json.loads(line)


def write(message: dict[str, Any]) -> None:
    """Send a line."""
    data = json.dumps(message, default=str).encode() + b"\n"
    while data:
        data = data[os.write(CHANNEL, data) :]


def run(code: str, apps: dict[str, dict[str, list[str]]], output: int) -> None:
    """Run code, print what it raises, and end this process. Called in the child."""
    os.dup2(output, 1)
    os.dup2(output, 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (WRITTEN, WRITTEN))
    status = 0
    try:
        exec(compile(code, "code", "exec"), {"__name__": "__main__", "apis": AllApps(apps), "AppError": AppError})
    except SystemExit:
        pass
    except BaseException:  # noqa: BLE001  whatever the code raises is its own result
        lines = traceback.format_exc().splitlines()
        print("\n".join(lines[:1] + lines[3:]), flush=True)
        status = 1
    sys.stdout.flush()
    os._exit(status)


def serve() -> None:
    """Run the request's code in a child, and report how it ended and what it wrote."""
    request = read()
    output = os.memfd_create("output")
    child = os.fork()
    if not child:
        run(request["code"], request["apps"], output)
    _, ended = os.waitpid(child, 0)
    os.lseek(output, 0, os.SEEK_SET)
    text = os.read(output, WRITTEN).decode("utf-8", "replace")
    write({"output": text[:MAX_CHARS], "cut": len(text) > MAX_CHARS, "status": os.waitstatus_to_exitcode(ended)})


if __name__ == "__main__":
    CHANNEL = os.dup(1)
    serve()
