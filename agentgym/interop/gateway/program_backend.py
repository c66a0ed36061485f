"""A backend whose sandboxes also hold an agent program."""

from __future__ import annotations

from dataclasses import replace

from agentgym.sandbox import Backend, Capabilities, Running, Sandbox, Snapshot
from agentgym.sandbox.limits import SandboxSpec


class ProgramBackend:
    """Creates the sandboxes of another backend, each with a program that is installed on this host.

    Args:
        program: the program's name, with its version.
    """

    def __init__(self, backend: Backend, program: str) -> None:
        self._backend, self._program = backend, program
        self.name, self.has_relay = backend.name, getattr(backend, "has_relay", False)

    async def create(self, spec: SandboxSpec, *, snapshot: Snapshot | None = None) -> Sandbox:
        programs = (*spec.programs, self._program)
        return await self._backend.create(replace(spec, programs=programs), snapshot=snapshot)

    async def probe(self) -> Capabilities:
        return await self._backend.probe()

    async def running(self) -> list[Running]:
        return await self._backend.running()

    async def clean(self) -> list[str]:
        return await self._backend.clean()

    async def close(self) -> None:
        """Do nothing: the other backend is shared, and closed by its owner."""
