"""Builds a submission in a sandbox, and calls its function with plain values, one call at a time.

The submission can write any data as its result. The result is read as the declared type, and compared with the right
value outside of the sandbox. So a submission gains nothing by exiting early, printing, threads, a custom `__eq__` or
control of its process: it must send values that it computed.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from typing import Any

from agentgym import SandboxDied, SandboxError, SandboxSpec
from agentgym.sandbox import Backend, Channel, ExecResult, Sandbox, Snapshot, shared_snapshot

from .language import Language
from .signature import Signature
from .value_types import ValueType
from .wire import from_words, line_of

BUILD_S, BUILD_CPU_S, PREPARE_S = 120.0, 60, 180.0
FUNCTION_SPEC = SandboxSpec(memory_mib=768, processes=128, disk_mib=128)
"""A sandbox large enough for every language's compiler."""
IDENTITY = Signature("same", (("x", ValueType("int")),), ValueType("int"))
"""The function called to check that a toolchain works."""


class ToolchainFault(SandboxError):
    """A language's compiler or interpreter is missing, or fails on a function that returns its argument."""


class CallFailed(Exception):
    """A call returned no value of the declared type: it raised, ended the program, timed out or sent other data."""


class CalledFunction:
    """A running program that answers calls of one function. Once a call has ended the program, every call fails."""

    def __init__(self, sandbox: Sandbox, channel: Channel, signature: Signature, timeout_s: float) -> None:
        self._sandbox, self._channel, self._signature = sandbox, channel, signature
        self._began, self._timeout_s = time.monotonic(), timeout_s
        self.ended = ""

    @classmethod
    async def start(
        cls,
        sandbox: Sandbox,
        language: Language,
        signature: Signature,
        *,
        cpu_s: int = 10,
        timeout_s: float = 60.0,
        printed: str = "/dev/null",
    ) -> CalledFunction:
        """Start a program that `build` has built.

        Args:
            cpu_s: processor seconds of all calls together. timeout_s: wall seconds of all calls together.
            printed: a file for what the program prints.
        Raises: SandboxError.
        """
        others = "" if language.standard_streams else "</dev/null >&2"
        command = f'ulimit -t {cpu_s}; exec 3<&0 4>&1 2>"$1" {others}; exec {language.run.format(name=signature.name)}'
        channel = await sandbox.open_channel(["sh", "-c", command, "sh", printed])
        return cls(sandbox, channel, signature, timeout_s)

    async def call(self, arguments: Sequence[Any]) -> Any:
        """Return what the function returns, as plain data of its declared type.

        Args:
            arguments: values that `Signature.check_arguments` admits.
        Raises: CallFailed saying why there is no value; SandboxError if the sandbox broke, and not the program.
        """
        if self.ended:
            raise CallFailed(self.ended)
        reply = await self._reply(line_of(self._signature.kinds, arguments))
        if reply == "!":
            raise CallFailed("it raised an error")
        if not isinstance(reply, str) or not reply.startswith("="):
            raise CallFailed("it sent something that is not a result")
        try:
            return from_words(self._signature.returns, reply[1:])
        except ValueError as error:
            raise CallFailed(f"its result is not of type {self._signature.returns}: {error}") from None

    async def _reply(self, line: str) -> Any:
        try:
            remaining_s = self._timeout_s + self._channel.waited_s - (time.monotonic() - self._began)
            return await self._channel.request(line, timeout_s=max(0.01, remaining_s))
        except TimeoutError:
            self.ended = f"it took longer than the {self._timeout_s:g} s that all calls have"
        except SandboxDied:
            await self._sandbox.usage()  # raises if the sandbox itself has died
            self.ended = "the program ended, or sent something that is no result"
        raise CallFailed(self.ended) from None

    async def close(self) -> None:
        """End the program."""
        await self._channel.close()


async def language_snapshot(backend: Backend, spec: SandboxSpec, language: Language) -> Snapshot:
    """Return the files of a sandbox in which `build` works: the language's driver, compiled once per backend.

    The toolchain is tried on a function that returns its argument.
    Raises: ToolchainFault naming the failed command and its output; SandboxError.
    """
    commands = (language.needs, language.prepare, language.build, language.run)
    parts = (spec, language.title, commands, sorted(language.driver_files().items()))
    key = hashlib.sha256(repr(parts).encode()).hexdigest()
    return await shared_snapshot(backend, "language", key, lambda: _prepare(backend, spec, language))


async def build(
    sandbox: Sandbox, language: Language, signature: Signature, code: str, *, timeout_s: float = BUILD_S
) -> ExecResult:
    """Write and compile a submission in a sandbox made from `language_snapshot`. Raises: SandboxError."""
    raw = language.packaged(code).encode("utf-8", "surrogatepass")
    await sandbox.write(language.file, raw)
    for name, text in language.files(signature).items():
        await sandbox.write(name, text.encode())
    if not language.build:
        return ExecResult(0)
    limited = ["sh", "-c", f'ulimit -t {BUILD_CPU_S}; exec "$@"', "sh", *language.build]
    return await sandbox.exec(limited, timeout_s=timeout_s)


async def check_language(backend: Backend, spec: SandboxSpec, language: Language) -> None:
    """Build and call a function that returns its argument, in a new sandbox. Raises: ToolchainFault, SandboxError."""
    sandbox = await backend.create(spec, snapshot=await language_snapshot(backend, spec, language))
    try:
        await _try_language(sandbox, language)
    finally:
        await sandbox.close()


async def _prepare(backend: Backend, spec: SandboxSpec, language: Language) -> Snapshot:
    sandbox = await backend.create(spec)
    try:
        script = 'for p; do command -v "$p" >/dev/null || echo "$p"; done'
        missing = (await sandbox.exec(["sh", "-c", script, "sh", *language.needs])).text.split()
        if missing:
            programs = ", ".join(missing)
            remedy = "install it, or leave the language out"
            raise ToolchainFault(f"The sandbox's image has no {programs} for {language.title}: {remedy}.")
        for name, raw in language.driver_files().items():
            await sandbox.write(name, raw)
        if language.prepare:
            _check(language, await sandbox.exec(list(language.prepare), timeout_s=PREPARE_S))
        snapshot = await sandbox.snapshot()
        await _try_language(sandbox, language)
        return snapshot
    finally:
        await sandbox.close()


async def _try_language(sandbox: Sandbox, language: Language) -> None:
    _check(language, await build(sandbox, language, IDENTITY, language.harmless))
    function = await CalledFunction.start(sandbox, language, IDENTITY, printed="/tmp/printed")
    try:
        value = await function.call([41])
    except CallFailed as error:
        words = (await sandbox.read("/tmp/printed")).decode("utf-8", "replace").strip()[-300:]
        raise ToolchainFault(
            f"The toolchain of {language.title} fails on a function that only returns its argument: {error}. {words}"
        ) from None
    finally:
        await function.close()
    if value != 41:
        raise ToolchainFault(
            f"The toolchain of {language.title} is broken: a function that returns its argument 41 returned {value!r}."
        )


def _check(language: Language, result: ExecResult) -> None:
    """Raise ToolchainFault if a command failed on harmless code."""
    if not result.ok:
        words = (result.stderr + result.stdout).decode("utf-8", "replace").strip()[:300]
        raise ToolchainFault(f"The toolchain of {language.title} fails on harmless code: {words or result.exit_code}")
