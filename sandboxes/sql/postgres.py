"""`agentgym/sql-postgres-v1`: a PostgreSQL server inside the sandbox, whose database the agent may change."""

from __future__ import annotations

import hashlib
import shutil
from functools import cache
from pathlib import Path
from typing import Any

from agentgym import GuestModule, GuestObject, SandboxSpec, SandboxUnavailable
from agentgym.sandbox import Sandbox, Snapshot, shared_snapshot

from .base import FILE
from .writing import WritableSqlEnvironment

PREPARE_S = 120.0
CLUSTER_MAKER = GuestModule(
    __package__, "guest", "guest_state", "guest_wire", "guest_source", "guest_postgres", "guest_cluster"
)
ENGINE = GuestModule(__package__, "guest", "guest_state", "guest_wire", "guest_postgres")
CLUSTERS_KEPT = 16


class SqlPostgres(WritableSqlEnvironment):
    """Changes to a database on its own PostgreSQL server, in a sandbox. Not isolated: SQL can change every table.

    The server is Debian's package `postgresql`, or is found in /usr/bin or /usr/local/bin. It is prepared once for each
    database, which takes seconds and needs a C compiler, `cc`; each episode starts from a fork of its files. The
    agent's user owns the tables but is not a superuser. Unlike in `agentgym/sql-write-v1`, the clock runs.

    Task parameters as for `agentgym/sql-v1`; an SQLite database is copied table by table, with its primary and
    foreign keys.
    """

    has_statements = False
    task_set = "sql/changes-postgres-v1"

    sandbox = SandboxSpec(memory_mib=384, processes=64, disk_mib=192, preload=("json", "re", "socket", "sqlite3"))
    system = "Change the PostgreSQL database as asked, by SQL, then finish. What is not committed then is lost."

    disk_per_byte = 5.0  # disk space for the file and the cluster
    memory_per_byte = 10.0

    def __init__(self, **limits: Any) -> None:
        super().__init__(**limits)
        self._server_sandbox: Sandbox | None = None
        self._forked = ""  # hash of the server sandbox's database

    @classmethod
    def unavailable_reason(cls) -> str:
        if not server_programs():
            return "It needs PostgreSQL's server, which is not installed: on Debian, apt-get install postgresql."
        return "" if shutil.which("cc") else "It needs a C compiler, cc: on Debian, apt-get install gcc libc6-dev."

    async def open_database(self, content: bytes) -> GuestObject:
        """Fork the sandbox in which the database's server was prepared."""
        if reason := self.unavailable_reason():
            raise SandboxUnavailable(f"agentgym/sql-postgres-v1: {reason}")
        digest = hashlib.sha256(content).hexdigest()
        binaries = server_programs()
        if self._server_sandbox is not None and self._forked == digest:
            await self._server_sandbox.reset()
        else:
            cluster = await self._cluster(content, digest, binaries)
            if self._server_sandbox is not None:
                await self._server_sandbox.close()
            self._server_sandbox = await self.open_sandbox(self.spec_for(content), snapshot=cluster)
            self._forked = digest
        guest_limits, wall_s = (self.limits.max_rows, self.limits.max_chars, self.limits.query_s), self.limits.wall_s
        return ENGINE.object(
            self._server_sandbox, "PostgresDatabase", binaries, *guest_limits, timeout_s=wall_s(len(content), 17.0)
        )

    async def _cluster(self, content: bytes, digest: str, binaries: str) -> Snapshot:
        if self.backend is None:
            return await self._prepared(content, binaries)  # reports what is missing
        return await shared_snapshot(
            self.backend, "postgres", digest, lambda: self._prepared(content, binaries), kept=CLUSTERS_KEPT
        )

    async def _prepared(self, content: bytes, binaries: str) -> Snapshot:
        sandbox = await self.open_sandbox(self.spec_for(content))
        try:
            await sandbox.write(FILE, content)
            result = await CLUSTER_MAKER.run(sandbox, "make_cluster", binaries, f"/work/{FILE}", timeout_s=PREPARE_S)
            if not result.ok:
                output = (result.stdout + result.stderr)[-800:].decode("utf-8", "replace")
                raise SandboxUnavailable(
                    f"No PostgreSQL cluster can be created on this machine (exit {result.exit_code}): {output}"
                )
            return await sandbox.snapshot()
        finally:
            await sandbox.close()


@cache
def server_programs() -> str:
    """Return the folder of PostgreSQL's own programs, the newest version's; "" if there is none."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: path.parts[4].zfill(4))
    others = [Path(folder, "postgres") for folder in ("/usr/bin", "/usr/local/bin", "/usr/pgsql/bin")]
    servers = [path for path in (*others, *versions) if path.with_name("initdb").exists() and path.exists()]
    return str(servers[-1].parent) if servers else ""
