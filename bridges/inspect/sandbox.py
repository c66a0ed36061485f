"""A sandbox provider for Inspect: each sample gets a sandbox from one of our backends.

Source: `inspect_ai.util.SandboxEnvironment` of Inspect 0.3.285, whose own checks (`self_check`) the tests run.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxEnvironment,
    SandboxEnvironmentLimits,
    SandboxUnavailableError,
    SandboxUserUnsupportedError,
    sandboxenv,
)
from pydantic import BaseModel, ConfigDict, ValidationError

from agentgym import BackendUser, SandboxDied, SandboxError, SandboxSpec, SandboxUnavailable, shared_backend
from agentgym.sandbox import Sandbox

_NO_TIMEOUT_S = 7 * 24 * 3600.0
_USERS = (None, "agent", "1000")  # the agent's user, by every name that Inspect may use
_REFUSED = 126  # exit code of a program that is not executable
_users: dict[str, list[BackendUser]] = {}


class InspectSandboxConfig(BaseModel):
    """Configuration of a sandbox: `SandboxEnvironmentSpec("agentgym", InspectSandboxConfig(memory_mib=4096))`, or TOML.

    Attributes:
        backend: registered name, such as `namespaces` or `docker`.
    The other fields are those of `agentgym.SandboxSpec`. Inspect's tools need more than our tool calls do, so the
    defaults for memory, disk and processes are larger.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    backend: str = "namespaces"
    image: str = "host"
    memory_mib: int = 2048
    cpu_cores: float = 1.0
    processes: int = 256
    disk_mib: int = 1024
    inodes: int = 100_000
    open_files: int = 1024
    network: Literal[False] | tuple[str, ...] = False
    environment: dict[str, str] = {}
    accept_weaker: tuple[str, ...] = ()

    @classmethod
    def read(cls, config: BaseModel | str | None) -> InspectSandboxConfig:
        """Read a config object, the path of a TOML file, or None, as Inspect passes it. Raises: SandboxError."""
        if config is None:
            return cls()
        if isinstance(config, cls):
            return config
        if not isinstance(config, str):
            raise SandboxError(
                f"The sandbox agentgym cannot be configured by a {type(config).__name__}. Give an "
                "InspectSandboxConfig, or the path of a TOML file with its keys."
            )
        try:
            return cls(**tomllib.loads(Path(config).read_text(encoding="utf-8")))
        except (OSError, ValueError, ValidationError) as error:
            raise SandboxError(f"The sandbox agentgym cannot be configured by {config}: {error}") from error

    def spec(self) -> SandboxSpec:
        """Return the specification of the sandbox. Raises: SandboxError for an invalid limit."""
        values = self.model_dump(exclude={"backend", "environment"})
        return SandboxSpec(**values, environment=tuple(self.environment.items()))


@sandboxenv(name="agentgym")
class InspectSandbox(SandboxEnvironment):
    """One sandbox of a sample. Everything runs as its only user, in /work unless another directory is given."""

    def __init__(self, sandbox: Sandbox) -> None:
        super().__init__()
        self._sandbox = sandbox

    @classmethod
    async def task_init(cls, task_name: str, config: Any) -> None:
        """Check before the first sample that sandboxes can be made. Raises: SandboxUnavailable, SandboxError."""
        chosen = InspectSandboxConfig.read(config)
        chosen.spec()
        _users.setdefault(task_name, []).append(BackendUser())
        finding = await shared_backend(chosen.backend).probe()
        if not finding.available:
            raise SandboxUnavailable(f"The backend {chosen.backend} does not work on this machine: {finding.reason}")

    @classmethod
    async def task_cleanup(cls, task_name: str, config: Any, cleanup: bool) -> None:
        """Close the backend after its last task. `--no-sandbox-cleanup` has no effect: its sandboxes end too."""
        if users := _users.get(task_name):
            await users.pop().close()

    @classmethod
    async def sample_init(cls, task_name: str, config: Any, metadata: dict[str, str]) -> dict[str, SandboxEnvironment]:
        """Create the sandbox of a sample. Raises: SandboxUnavailable, LimitUnenforceable."""
        chosen = InspectSandboxConfig.read(config)
        return {"default": cls(await shared_backend(chosen.backend).create(chosen.spec()))}

    @classmethod
    async def sample_cleanup(
        cls, task_name: str, config: Any, environments: dict[str, SandboxEnvironment], interrupted: bool
    ) -> None:
        """Close the sandboxes of a sample, discarding their contents."""
        for environment in environments.values():
            await environment.as_type(InspectSandbox)._sandbox.close()

    @classmethod
    async def cli_cleanup(cls, id: str | None) -> None:  # noqa: A002 - Inspect's name
        """Remove the files and processes that terminated runs left behind, for any `id`."""
        for line in await shared_backend().clean():
            print(line)

    @classmethod
    def default_concurrency(cls) -> int | None:
        """Return twice the number of this host's processors."""
        return 2 * (os.cpu_count() or 1)

    @classmethod
    def config_deserialize(cls, config: dict[str, Any]) -> BaseModel:
        return InspectSandboxConfig(**config)

    def default_polling_interval(self) -> float:
        """Return the polling interval in seconds; a call takes about a millisecond here."""
        return 0.2

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,  # noqa: A002 - Inspect's name
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,  # noqa: ASYNC109 - Inspect's name
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        """Run a command once. It is not retried after a timeout, because our timeouts are not transient.

        Raises: TimeoutError; PermissionError for a program that is not executable; OutputLimitExceededError with the
            start of the output; SandboxUserUnsupportedError; SandboxUnavailableError.
        """
        if user not in _USERS:
            raise SandboxUserUnsupportedError(
                f"A sandbox of agentgym has only the user `agent`, so it cannot run a command as {user!r}. Leave "
                "`user` out."
            )
        with self._reachable():
            result = await self._sandbox.exec(
                cmd,
                stdin=input.encode() if isinstance(input, str) else input or b"",
                cwd=cwd,
                env=env,
                timeout_s=_NO_TIMEOUT_S if timeout is None else timeout,
                max_output_bytes=SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE,
            )
        stdout, stderr = (text.decode("utf-8", "replace") for text in (result.stdout, result.stderr))
        if result.timed_out:
            raise TimeoutError(f"{cmd[0]} did not end within {timeout} s.")
        if result.exit_code == _REFUSED and stderr == f"{cmd[0]}: Permission denied\n":
            raise PermissionError(stderr.strip())
        if result.truncated:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR, stdout or stderr)
        # shells report a signal this way
        code = result.exit_code if result.exit_code >= 0 else 128 - result.exit_code
        return ExecResult(result.ok, code, stdout, stderr)

    async def write_file(self, file: str, contents: str | bytes) -> None:
        """Write a file. Raises: PermissionError, IsADirectoryError, OSError for a full disk;
        SandboxUnavailableError.
        """
        with self._reachable():
            await self._sandbox.write(file, contents.encode() if isinstance(contents, str) else contents)

    async def read_file(self, file: str, text: bool = True) -> Any:
        """Read a file as text with unchanged line endings, or as bytes.

        Raises: FileNotFoundError, PermissionError, IsADirectoryError, UnicodeDecodeError, OutputLimitExceededError,
            SandboxUnavailableError.
        """
        most = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE
        with self._reachable():
            try:
                content = await self._sandbox.read(file, max_bytes=most)
            except ValueError as error:
                raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None) from error
        return content.decode("utf-8") if text else content

    @contextmanager
    def _reachable(self) -> Iterator[None]:
        """Raise Inspect's SandboxUnavailableError for a sandbox that has ended for any reason."""
        try:
            yield
        except SandboxDied as error:
            raise SandboxUnavailableError(str(error)) from error
