"""`agentgym sandbox`: show what this machine can enforce and which sandboxes run, and remove leftovers."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from agentgym.cli import shell
from agentgym.cli.console import err, out, run
from agentgym.cli.fields import FieldsCommand
from agentgym.errors import SandboxUnavailable
from agentgym.text import counted

if TYPE_CHECKING:
    from agentgym.sandbox import Backend, Capabilities, Running

T = TypeVar("T")

app = typer.Typer(
    help="Sandboxes: what they can enforce here, a shell in one, what runs, cleaning up.", no_args_is_help=True
)
app.command("shell", cls=FieldsCommand)(shell.shell)

Backends = Annotated[
    list[str] | None, typer.Option("--backend", metavar="NAME", help="Only this one; may be given more than once.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]
_STYLES = {"enforced": "green", "watched": "yellow", "missing": "red"}


@app.command("doctor")
def doctor(backends: Backends = None, as_json: AsJson = False) -> None:
    """Say which limits each backend can enforce on this machine, why it cannot enforce others, and how to change that.

    Ends with 0 if some backend (each one named by --backend) enforces every limit, with 1 otherwise.

    Example: agentgym sandbox doctor
    """
    findings = run(_probe(backends))
    perfect = [name for name, finding in findings.items() if finding["available"] and not finding["lacking"]]
    ok = set(backends) <= set(perfect) if backends else bool(perfect)
    if as_json:
        out().print(
            json.dumps({"ok": ok, "machine": _host(), "backends": findings}, indent=1), markup=False, soft_wrap=True
        )
    else:
        _show(findings, ok)
    if not ok:
        raise typer.Exit(1)


@app.command("ps")
def ps(backends: Backends = None, as_json: AsJson = False) -> None:
    """List every sandbox that runs on this machine, whoever made it.

    Example: agentgym sandbox ps
    """
    sandboxes = run(_running(backends))
    if as_json:
        from dataclasses import asdict

        out().print(json.dumps([asdict(sandbox) for sandbox in sandboxes], indent=1), markup=False, soft_wrap=True)
        return
    if not sandboxes:
        out().print("No sandbox runs on this machine.")
        return
    out().print(_running_table(sandboxes))
    if orphans := sum(sandbox.orphaned for sandbox in sandboxes):
        err().print(
            f"{orphans} of {len(sandboxes)} outlived the processes that made them: agentgym sandbox clean ends them.",
            style="yellow",
        )


@app.command("clean")
def clean(
    backends: Backends = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say which sandboxes would be ended.")] = False,
) -> None:
    """Remove what dead processes left behind: sandboxes, control groups, containers, sockets. Spares what is in use.

    Example: agentgym sandbox clean
    """
    if dry_run:
        orphans = [sandbox for sandbox in run(_running(backends)) if sandbox.orphaned]
        for sandbox in orphans:
            out().print(
                f"would end {sandbox.backend} sandbox {sandbox.id}, {_age(sandbox.age_s)} old",
                markup=False,
                soft_wrap=True,
            )
        out().print(f"{counted(len(orphans), 'sandbox')} would be ended, with whatever else their dead owners left.")
        return
    removed = run(_clean(backends))
    for line in removed:
        out().print(f"removed {line}", markup=False, soft_wrap=True)
    out().print(f"{counted(len(removed), 'thing')} removed." if removed else "Nothing was left behind.")


@app.command("image")
def image(
    python: Annotated[str, typer.Argument(metavar="VERSION", help="The version of Python, such as 3.9.")],
    interpreter: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="The interpreter to copy; else one on the PATH, of pyenv or uv."),
    ] = None,
) -> None:
    """Make an image named pythonVERSION of this host's programs and another Python than its own, unless there is one.

    Example: agentgym sandbox image 3.9
    """
    from agentgym.sandbox.rootfs.python_image import make_python_image

    folder = make_python_image(python, interpreter)
    out().print(f"{folder}: use it as SandboxSpec(image={folder.name!r})", markup=False, soft_wrap=True)


@app.command("base")
def base(
    images: Annotated[
        list[str], typer.Argument(metavar="NAME...", help="What a FROM names: ubuntu:24.04, python:3.12-slim, ...")
    ],
) -> None:
    """Make a stand-in for a usual base image of Dockerfiles from packages of Debian or Ubuntu, once. Takes a minute.

    It has the same programs, in the versions of this host's distribution. Needs mmdebstrap and the package index of
    apt. An image of the right name in the cache, put there by `docker save`, is always preferred.

    Example: agentgym sandbox base ubuntu:24.04 python:3.12-slim
    """
    from agentgym.sandbox.rootfs.stand_ins import make_stand_in

    for name in images:
        path = make_stand_in(name, progress=lambda line: err().print(line, style="dim", markup=False, soft_wrap=True))
        out().print(f"{path}: stands in for {name}", markup=False, soft_wrap=True)


@app.command("program")
def program(
    name: Annotated[str, typer.Argument(metavar="NAME", help="npm:PACKAGE or pypi:PACKAGE, perhaps with @VERSION.")],
) -> None:
    """Install an agent program for sandboxes from npm or PyPI, once, pinned to its version.

    Example: agentgym sandbox program npm:@openai/codex
    """
    from agentgym.sandbox.rootfs.programs import install_program

    installed = install_program(name)
    out().print(
        f"{installed.name}, {installed.digest[:19]}: use it as package = {installed.name!r}; its commands: "
        f"{', '.join(installed.commands)}",
        markup=False,
        soft_wrap=True,
    )


def chosen(names: list[str] | None) -> dict[str, Backend]:
    """Return the named backends, or all registered backends if none is named. Raises: UnknownNameError."""
    from agentgym import registry

    return {name: registry.shared_backend(name) for name in names or registry.names("backends")}


async def _probe(names: list[str] | None) -> dict[str, dict[str, Any]]:
    return {name: _findings(await backend.probe()) for name, backend in chosen(names).items()}


def _findings(capabilities: Capabilities) -> dict[str, Any]:
    """Return what a backend can do, with a state for every limit: enforced, watched or missing."""
    from agentgym.sandbox.limits import LIMITS

    missing = dict(capabilities.missing)
    limits: dict[str, dict[str, str]] = {}
    for name, meaning in LIMITS.items():
        why = missing.get(name, "" if name in capabilities.enforced else "the backend does not name this limit")
        state = "enforced" if not why else "watched" if name in capabilities.watched else "missing"
        limits[name] = {"state": state, "bounds": meaning, "reason": why}
    return {
        "available": capabilities.available,
        "level": capabilities.level,
        "reason": capabilities.reason,
        "snapshots": capabilities.snapshots,
        "limits": limits if capabilities.available else {},
        "lacking": [name for name, limit in limits.items() if capabilities.available and limit["state"] != "enforced"],
    }


def _host() -> str:
    system = os.uname()
    user = "root" if os.geteuid() == 0 else f"user {os.geteuid()}"
    return f"{system.sysname} {system.release} on {system.machine}, {user}"


def _show(findings: dict[str, dict[str, Any]], ok: bool) -> None:
    from rich.table import Table
    from rich.text import Text

    from agentgym.cli.uncut import Indented

    console = out()
    console.print(f"{_host()}\n", style="dim", markup=False)
    for name, finding in findings.items():
        if not finding["available"]:
            console.print(Text.assemble((name, "bold"), "  ", ("not available", "red")))
            console.print(Indented(Text(finding["reason"] + "\n"), 2))
            continue
        missing = finding["lacking"]
        summary = (
            ("every limit is enforced", "green") if not missing else (f"not enforced: {', '.join(missing)}", "yellow")
        )
        console.print(Text.assemble((name, "bold"), f"  level {finding['level']}, ", summary))
        table = Table(box=None, pad_edge=False, header_style="bold")
        for heading in ("Limit", "State", "What it bounds"):
            table.add_column(heading, no_wrap=heading != "What it bounds")
        for limit, state in finding["limits"].items():
            table.add_row(Text(limit), Text(state["state"], style=_STYLES[state["state"]]), Text(state["bounds"]))
        snapshots = ("yes", "green") if finding["snapshots"] else ("no", "yellow")
        table.add_row("snapshots", Text(*snapshots), "files of a sandbox, kept and restored")
        console.print(table)
        for reason in dict.fromkeys(finding["limits"][limit]["reason"] for limit in missing):
            names = ", ".join(limit for limit in missing if finding["limits"][limit]["reason"] == reason)
            console.print(Indented(Text.assemble((names, "bold"), f": {reason}"), 2))
        if missing:
            accepting = f"To play all the same code that you trust: --accept-weaker {','.join(missing)}"
            console.print(Indented(Text(accepting), 2))
        console.print()
    if ok:
        console.print("Hostile code can be held here; `agentgym dev sandbox-attack` tests it.", markup=False)
    else:
        console.print(
            "No backend here enforces every limit." if len(findings) > 1 else "Not every limit is enforced here."
        )


async def _running(names: list[str] | None) -> list[Running]:
    return await _of_all(names, lambda backend: backend.running())


async def _of_all(names: list[str] | None, ask: Callable[[Backend], Awaitable[list[T]]]) -> list[T]:
    """Return the backends' answers. Skip, with a note, a backend that cannot work here, unless the user named it."""
    answers: list[T] = []
    for name, backend in chosen(names).items():
        try:
            answers += await ask(backend)
        except SandboxUnavailable as error:
            if names:
                raise
            err().print(f"{name} was passed over: {error}", style="dim", markup=False, soft_wrap=True)
    return answers


def _running_table(sandboxes: list[Running]) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("Backend", "Id", "Image", "Owner", "Age", "MiB", "Processes"):
        table.add_column(
            heading, no_wrap=heading != "Image", justify="right" if heading in ("Age", "MiB", "Processes") else "left"
        )
    for sandbox in sandboxes:
        owner = Text("gone", style="yellow") if sandbox.orphaned else Text(str(sandbox.owner))
        table.add_row(
            Text(sandbox.backend),
            Text(sandbox.id[:12]),
            Text(sandbox.image),
            owner,
            _age(sandbox.age_s),
            f"{sandbox.memory_mib:.1f}",
            str(sandbox.processes),
        )
    return table


def _age(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


async def _clean(names: list[str] | None) -> list[str]:
    return await _of_all(names, lambda backend: backend.clean())
