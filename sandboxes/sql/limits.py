"""Limits of an SQL environment: the size of results, the time of a query, and the size of the sandbox."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agentgym import SandboxSpec, TaskError

MIB = 2**20
SLACK_MIB = 5  # disk space in addition to the file itself


@dataclass(frozen=True, slots=True)
class SqlLimits:
    """Options of every SQL environment that runs in a sandbox, given to its constructor.

    Attributes:
        max_rows, max_chars: the rows and characters of a result that the agent is shown.
        query_s: seconds a query may take; on SQLite, seconds of processor time.
        max_columns: the most columns of a table or a result on SQLite, whose own limit is 2,000.
        memory_mib, disk_mib: limits of the sandbox; by default the environment's own, and more for a large database.
    """

    max_rows: int = 20
    max_chars: int = 2_000
    query_s: float = 2.0
    max_columns: int = 2_000
    memory_mib: int | None = None
    disk_mib: int | None = None

    def __post_init__(self) -> None:
        for name in ("max_rows", "max_chars", "query_s", "max_columns", "memory_mib", "disk_mib"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, (int, float)) and value > 0):
                raise TaskError(f"The SQL environment's option {name} must be a number above 0, not {value!r}.")

    def spec(self, base: SandboxSpec, size: int, *, disk_per_byte: float, memory_per_byte: float) -> SandboxSpec:
        """Return the sandbox spec for a database of `size` bytes: `base`, enlarged by powers of two so that there are
        few different specs.

        Args:
            disk_per_byte, memory_per_byte: the engine's need for each byte of the file.
        """
        disk, memory = base.disk_mib, base.memory_mib
        while disk < size * disk_per_byte / MIB + SLACK_MIB:
            disk *= 2
        while memory < base.memory_mib / 2 + size * memory_per_byte / MIB:
            memory *= 2
        return replace(base, disk_mib=self.disk_mib or disk, memory_mib=self.memory_mib or memory)

    def wall_s(self, size: int, seconds: float = 10.0) -> float:
        """Return the limit in wall seconds of a request, which may include opening a database of `size` bytes."""
        return seconds + 4 * self.query_s + size / MIB
