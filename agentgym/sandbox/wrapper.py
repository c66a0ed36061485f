"""SandboxWrapper: a sandbox that forwards all calls through one method to the sandbox that runs them."""

from __future__ import annotations

import builtins
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym.sandbox.contract import Channel, ExecResult, Snapshot, Usage


class SandboxWrapper(ABC):
    """Base of a sandbox that forwards its calls to another one. For docstrings see agentgym/sandbox/contract.py.

    A subclass implements `call`, which calls a method of the other sandbox, and also `connections` and `close`. It may
    override `run` to look at the result of each command and Python call.
    """

    @abstractmethod
    async def call(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Call a method of the sandbox by its name. Raises: any error of the method."""

    async def run(self, method: str, program: Any, **options: Any) -> ExecResult:
        """Call `exec` or `run_python`, and return the result."""
        result: ExecResult = await self.call(method, program, **options)
        return result

    async def exec(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float = 30,
        max_output_bytes: int = 65_536,
    ) -> ExecResult:
        limits = {"timeout_s": timeout_s, "max_output_bytes": max_output_bytes}
        return await self.run("exec", argv, stdin=stdin, cwd=cwd, env=env, **limits)

    async def run_python(
        self, code: str, *, session: str | None = None, timeout_s: float = 30, max_output_bytes: int = 65_536
    ) -> ExecResult:
        limits = {"timeout_s": timeout_s, "max_output_bytes": max_output_bytes}
        return await self.run("run_python", code, session=session, **limits)

    async def read(self, path: str, *, max_bytes: int = 16 * 2**20) -> bytes:
        content: bytes = await self.call("read", path, max_bytes=max_bytes)
        return content

    async def write(self, path: str, data: bytes, mode: int = 0o644) -> None:
        await self.call("write", path, data, mode)

    async def list(self, path: str = ".") -> list[str]:
        names: builtins.list[str] = await self.call("list", path)
        return names

    async def open_channel(self, argv: Sequence[str]) -> Channel:
        channel: Channel = await self.call("open_channel", argv)
        return channel

    async def snapshot(self) -> Snapshot:
        snapshot: Snapshot = await self.call("snapshot")
        return snapshot

    async def reset(self) -> None:
        await self.call("reset")

    async def usage(self) -> Usage:
        used: Usage = await self.call("usage")
        return used
