"""Runs inside a sandbox once for each database: creates a small PostgreSQL cluster with the tables of an SQLite file.

Uses only the standard library. Every episode's sandbox is then forked from the cluster's files.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from itertools import islice

from .guest_postgres import CLUSTER, SHIM, SOCKET, start_server
from .guest_source import SourceTable, quote, source_tables
from .guest_wire import PostgresConnection, ServerError

SETTINGS = """
listen_addresses = ''
unix_socket_directories = '/work'
unix_socket_permissions = 0700
max_connections = 5
shared_buffers = 4MB
wal_buffers = 64kB
work_mem = 4MB
temp_file_limit = 32MB
fsync = off
synchronous_commit = off
full_page_writes = off
wal_level = minimal
max_wal_senders = 0
min_wal_size = 2MB
max_wal_size = 4MB
dynamic_shared_memory_type = mmap
autovacuum = off
jit = off
max_parallel_workers_per_gather = 0
log_min_messages = fatal
timezone = 'UTC'
"""
TYPES = {"integer": "BIGINT", "real": "DOUBLE PRECISION", "blob": "BYTEA", "text": "TEXT"}
# PostgreSQL insists on one System V shared memory segment, by which a second server on the same files would notice the
# first. Sandboxes refuse such segments, since they outlive their processes, and run only one server: ordinary shared
# memory, which its processes inherit, does as well.
SHIM_SOURCE = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>

static struct { size_t size; void *at; } segments[8];
static int count;

int shmget(key_t key, size_t size, int flags) {
    if (count == 8 || !(flags & IPC_CREAT)) { errno = ENOENT; return -1; }
    void *at = mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) { errno = ENOMEM; return -1; }
    segments[count].size = size;
    segments[count].at = at;
    return count++;
}

void *shmat(int id, const void *where, int flags) {
    if (id < 0 || id >= count) { errno = EINVAL; return (void *) -1; }
    return segments[id].at;
}

int shmdt(const void *at) { return 0; }

int shmctl(int id, int command, struct shmid_ds *into) {
    if (id < 0 || id >= count) { errno = EINVAL; return -1; }
    if (command == IPC_STAT) {
        memset(into, 0, sizeof *into);
        into->shm_segsz = segments[id].size;
        into->shm_nattch = 1;
    }
    return 0;
}
"""
ROWS_AT_ONCE = 200


def make_cluster(binaries: str, path: str) -> None:
    """Create the cluster, load the tables of an SQLite file into it, and stop the server. Raises: RuntimeError."""
    with open("/work/no_sysv.c", "w") as file:
        file.write(SHIM_SOURCE)
    _run(["cc", "-shared", "-fPIC", "-O1", "-o", SHIM, "/work/no_sysv.c"], {})
    options = ["-A", "trust", "-U", "postgres", "--wal-segsize=1", "-N", "--no-locale", "-E", "UTF8"]
    _run([f"{binaries}/initdb", "-D", CLUSTER, *options], {"LD_PRELOAD": SHIM})
    with open(f"{CLUSTER}/postgresql.conf", "w") as file:
        file.write(SETTINGS)
    _keep_one_database(binaries)
    start_server(binaries)
    connection = PostgresConnection(SOCKET, "postgres", "world")
    for sql in ("CREATE ROLE agent LOGIN", "GRANT CREATE, USAGE ON SCHEMA public TO agent", "DROP DATABASE postgres"):
        connection.execute(sql)
    with source_tables(path) as tables:
        for table in tables:
            _load(connection, table)
        for table in tables:
            _link(connection, table)
    connection.execute("ANALYZE")
    connection.execute("CHECKPOINT")
    connection.close()
    _stop()
    for name in (path, "/work/no_sysv.c", "/work/server.log"):
        os.unlink(name)


def _keep_one_database(binaries: str) -> None:
    """Drop the other databases: a cluster has three copies of the system's tables, which make up most of its size."""
    statements = (
        "UPDATE pg_database SET datistemplate = false;",
        "ALTER DATABASE template1 RENAME TO world;",
        "DROP DATABASE template0;",
    )
    argv = [f"{binaries}/postgres", "--single", "-c", "exit_on_error=true", "-D", CLUSTER, "postgres"]
    _run(argv, {"LD_PRELOAD": SHIM}, "\n".join((*statements, "")).encode())


def _load(connection: PostgresConnection, table: SourceTable) -> None:
    columns = [f"{quote(name)} {TYPES[kind]}" for name, kind in table.columns]
    if table.key:
        columns.append(f"PRIMARY KEY ({', '.join(map(quote, table.key))})")
    name = f"public.{quote(table.name)}"
    try:
        connection.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
        _insert(connection, name, table.rows())
    except ServerError:  # a key contains NULL or the same value twice, which SQLite allows
        connection.execute(f"DROP TABLE IF EXISTS {name}")
        connection.execute(f"CREATE TABLE {name} ({', '.join(columns[: len(table.columns)])})")
        _insert(connection, name, table.rows())
    connection.execute(f"ALTER TABLE {name} OWNER TO agent")


def _insert(connection: PostgresConnection, name: str, rows: Iterator[tuple[object, ...]]) -> None:
    while batch := list(islice(rows, ROWS_AT_ONCE)):
        values = [f"({', '.join(map(_literal, row))})" for row in batch]
        connection.execute(f"INSERT INTO {name} VALUES {', '.join(values)}")


def _link(connection: PostgresConnection, table: SourceTable) -> None:
    for column, other, key in table.links:
        target = f"public.{quote(other)} ({quote(key)})"
        try:
            connection.execute(
                f"ALTER TABLE public.{quote(table.name)} ADD FOREIGN KEY ({quote(column)}) REFERENCES {target}"
            )
        except ServerError:
            continue  # the data violates it, or the other table lacks the key: SQLite allows both


def _literal(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"'\\x{value.hex()}'"
    if isinstance(value, str):
        return "'" + value.replace("\0", "").replace("'", "''") + "'"
    return repr(value) if isinstance(value, int) else f"'{value!r}'"


def _stop() -> None:
    with open(f"{CLUSTER}/postmaster.pid") as file:
        pid = int(file.readline())
    os.kill(pid, signal.SIGINT)
    os.waitpid(pid, 0)


def _run(argv: list, environment: dict, given: bytes = b"") -> None:  # type: ignore[type-arg]
    completed = subprocess.run(argv, input=given, capture_output=True, env={**os.environ, **environment})
    if completed.returncode:
        raise RuntimeError(
            f"{argv[0]} ended with {completed.returncode}: {(completed.stdout + completed.stderr)[-600:]!r}"
        )
