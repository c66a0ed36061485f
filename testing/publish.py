"""`agentgym publish --check`: check that a package is ready to be published."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from agentgym import AgentGymError
from agentgym.cli import err, out
from agentgym.text import counted

from .block_guard import BlockGuard
from .commands import play_checks, steps_of

_NOT_COPIED = ("build", "dist", "*.egg-info", "__pycache__", ".venv", "venv", "node_modules", ".*_cache")
"""Names left out of the clean copy: outputs of earlier builds could add files to the wheel that a checkout lacks."""
BUILD_S = 600.0
"""How long the build of a wheel may take, in seconds."""
_NOT_NEEDED = {".md", ".rst", ".pyc", ".pyi", ".pyx", ".c", ".cpp", ".h", ".rs"}
"""Suffixes of files that a wheel need not hold: documents, and sources of compiled modules."""


class PackageError(AgentGymError, ValueError):
    """A folder holds no package of environments, the package is not installed, or its wheel cannot be built."""


def build_wheel(folder: Path, scratch: Path) -> Path:
    """Build the wheel of the package in `folder`, and return the folder that it was unpacked to, inside of `scratch`.

    Use the packaging tool that `pyproject.toml` names if it is installed here; otherwise pip downloads it.
    Raises: PackageError with the last lines of pip's output if the wheel cannot be built.
    """
    copy, wheels, unpacked = scratch / "copy", scratch / "wheels", scratch / "unpacked"
    shutil.copytree(folder, copy, symlinks=True, ignore=shutil.ignore_patterns(*_NOT_COPIED))
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--disable-pip-version-check"]
    for isolation in (["--no-build-isolation", "--check-build-dependencies"], []):
        try:
            built = _run_group(
                [*command, *isolation, "-w", wheels, copy],
                limit_s=BUILD_S,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
        except subprocess.TimeoutExpired as error:
            raise PackageError(
                f"it was not built in {BUILD_S:g} s. Run `pip wheel --no-deps {folder}` to see what takes so long."
            ) from error
        if built.returncode == 0:
            break
    else:
        lines = [line.strip() for line in built.stderr.splitlines()]
        faults = [line for line in lines if "error" in line.lower()] or lines
        raise PackageError(f"it cannot be built. `pip wheel --no-deps {folder}` says: {' | '.join(faults[:4])}")
    with zipfile.ZipFile(next(wheels.glob("*.whl"))) as wheel:
        wheel.extractall(unpacked)
    return unpacked


def files_left_out(folder: Path, unpacked: Path) -> list[str]:
    """Return the files inside of the package's import packages that its wheel lacks, as paths below `folder`.

    Documents, tests, hidden files and sources of compiled modules are not counted.
    """
    missing = []
    for package in sorted(path.name for path in unpacked.iterdir() if path.is_dir() and "." not in path.name):
        for source in (folder / package, folder / "src" / package):
            for file in sorted(source.rglob("*")):
                inside = file.relative_to(source)
                if file.is_file() and _is_needed(inside) and not (unpacked / package / inside).is_file():
                    missing.append(str(file.relative_to(folder)))
    return missing


def _is_needed(file: Path) -> bool:
    unneeded = any(part.startswith(".") or part in ("__pycache__", "tests", "node_modules") for part in file.parts)
    return not unneeded and file.suffix not in _NOT_NEEDED


_CARD_SECTIONS = {
    "counts as right": "what counts as right",
    "oors": "floors",
    "not measure": "what it does not measure",
}
"""Words in the headings of a card, and what the section under each heading must say."""
_HEADING = re.compile(r"^ *(?:(?P<level>#+) +(?P<title>.+)|\*\*(?P<bold>[^*]+)\*\*)", re.MULTILINE)
_CHECKED_TITLES = {"environments": "contract, reward hacks", "task_sets": "splits, determinism in another process"}


def publish(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The package: the folder of its pyproject.toml.")],
    check: Annotated[bool, typer.Option("--check", help="Say what is missing. Nothing is ever uploaded.")] = True,
) -> None:
    """Say whether a package of environments is ready: contract, reward hacks, determinism, card and licence.

    The package must be installed (`pip install -e DIR`), so that its names are known. Your packaging tool uploads it.

    Example: agentgym publish --check warehouse
    """
    failed = False
    for title, finding in _findings(folder):
        failed = failed or bool(finding)
        console = err() if finding else out()
        text = f"- {title}: {finding}" if finding else f"+ {title}"
        console.print(text, markup=False, soft_wrap=True)
    if failed:
        raise typer.Exit(1)
    out().print("Ready.", style="green")


publish.panel = "Tasks and sandboxes"  # type: ignore[attr-defined]


def _findings(folder: Path) -> Iterator[tuple[str, str]]:
    """Return each checked item and its fault; the fault is empty if there is none."""
    project = _project(folder)
    points: dict[str, dict[str, str]] = project.get("entry-points", {})
    environments = [*points.get("agentgym.environments", {})]
    task_sets = [*points.get("agentgym.task_sets", {})]
    if not environments and not task_sets:
        raise PackageError(
            f"{folder / 'pyproject.toml'} registers nothing. Add entry points in the groups agentgym.environments or "
            "agentgym.task_sets."
        )
    _check_installed(environments, task_sets, folder)
    ours = {group.removeprefix("agentgym."): [*names] for group, names in points.items() if "agentgym." in group}
    with tempfile.TemporaryDirectory(prefix="agentgym-publish-") as scratch:
        try:
            with steps_of(str(folder)) as note:
                note("building the wheel")
                unpacked = build_wheel(folder, Path(scratch))
        except PackageError as error:
            yield "wheel", str(error)
        else:
            yield "wheel: every file of the package", _left_out(files_left_out(folder, unpacked))
            yield from _play_wheel(unpacked, ours)
    yield "card", _card_problem(folder, [*environments, *task_sets])
    licence = project.get("license") or (folder / "LICENSE").is_file()
    yield "licence", "" if licence else "name one in pyproject.toml (license = ...), or add a file LICENSE"
    described = project.get("description") and project.get("version")
    yield "description and version", "" if described else "give both in pyproject.toml"
    yield "nothing left to write", _still_to_do(folder)


def _project(folder: Path) -> dict[str, Any]:
    file = folder / "pyproject.toml"
    try:
        project: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
    except (FileNotFoundError, NotADirectoryError) as error:
        raise PackageError(f"{file} does not exist. Give the folder of a package.") from error
    except (tomllib.TOMLDecodeError, KeyError) as error:
        raise PackageError(f"{file} has no valid section [project]: {error}") from error
    return project


def _check_installed(environments: list[str], task_sets: list[str], folder: Path) -> None:

    from agentgym import names

    known = {*names("environments"), *names("task_sets")}
    if missing := [name for name in (*environments, *task_sets) if name not in known]:
        raise PackageError(f"{missing[0]} is not installed here. Run: pip install -e {folder}")


def _left_out(files: list[str]) -> str:
    if not files:
        return ""
    named = ", ".join(files[:5]) + (f" and {len(files) - 5} more" if len(files) > 5 else "")
    return (
        f"the wheel lacks {named}. With setuptools, name data under [tool.setuptools.package-data] and each package "
        "under [tool.setuptools] packages"
    )


def _play_wheel(unpacked: Path, names: dict[str, list[str]]) -> Iterator[tuple[str, str]]:
    """Check the package's names in another process that sees only the wheel's files, not the package's folder."""
    code = "from agentgym.testing.publish import print_findings; print_findings()"
    paths = os.pathsep.join(filter(None, [str(unpacked), os.environ.get("PYTHONPATH")]))
    checked = _run_group(
        [sys.executable, "-P", "-c", code],
        text=json.dumps(names),
        stdout=subprocess.PIPE,
        cwd=unpacked,
        env={**os.environ, "PYTHONPATH": paths},
    )
    try:
        findings = json.loads(checked.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        findings = [["checks of the wheel", f"the process that plays them ended with exit code {checked.returncode}"]]
    yield from ((title, finding) for title, finding in findings)


def _run_group(
    command: list[Any], *, text: str = "", limit_s: float | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command, and end every process that it started, also after Ctrl-C. Raises: subprocess.TimeoutExpired."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, encoding="utf-8", start_new_session=True, **options)
    try:
        output, errors = process.communicate(text, limit_s)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def print_findings() -> None:
    """Read names by kind from standard input, check each, and print the titles and findings as a line of JSON."""
    names: dict[Any, list[str]] = json.load(sys.stdin)
    findings = []
    for kind, group in names.items():
        for name in group:
            title, finding = _CHECKED_TITLES.get(kind, "can be imported"), ""
            try:
                _check_name(kind, name, title)
            except Exception as error:  # noqa: BLE001 - code of the package: whatever it raises is a finding
                finding = str(error) if isinstance(error, AgentGymError) else f"{type(error).__name__}: {error}"
            findings.append([f"{name}: {title}", finding])
    print(f"\n{json.dumps(findings)}", flush=True)
    os._exit(0)  # without waiting for threads of the package


def _check_name(kind: Any, name: str, title: str) -> None:
    from agentgym import load

    from . import check_task_set

    with steps_of(name) as note:
        if kind == "environments":
            play_checks(name, None, note)
            return
        note(title)
        with BlockGuard(name):
            if kind == "task_sets":
                check_task_set(name)
            else:
                load(kind, name)


def _card_problem(folder: Path, names: list[str]) -> str:
    cards = [path.read_text(encoding="utf-8") for path in _documents(folder, "CARD.md")]
    if not cards:
        return "write CARD.md: what the agent does, the splits, what counts as right, floors and ceiling"
    text = "\n".join(cards)
    sections = _sections(text)
    missing = [name for name in names if name not in text]
    for words, title in _CARD_SECTIONS.items():
        if not any(words in heading and body for heading, body in sections):
            missing.append(title)
    return f"CARD.md says nothing of {', '.join(dict.fromkeys(missing))}" if missing else ""


def _sections(text: str) -> list[tuple[str, str]]:
    """Split a card at its headings (`#`, or bold at the start of a line). Return each heading and the text below."""
    headings = [(len(match["level"] or "#" * 7), match) for match in _HEADING.finditer(text)]
    sections = []
    for index, (level, heading) in enumerate(headings):
        ends = [other.start() for depth, other in headings[index + 1 :] if depth <= level]
        body = text[heading.end() : min(ends, default=len(text))]
        sections.append((heading["title"] or heading["bold"], body.strip(" .:\n")))
    return sections


def _still_to_do(folder: Path) -> str:
    """Return the lines of documents and of pyproject.toml that contain TODO, as `agentgym new` writes them."""
    lines = []
    for file in (folder / "pyproject.toml", *_documents(folder, "*.md")):
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            if "TODO" in line:
                lines.append(f"{file.relative_to(folder)}, line {number}: {line[line.index('TODO') :].strip()}")
    return f"{counted(len(lines), 'line')} still to write: {'; '.join(lines)}" if lines else ""


def _documents(folder: Path, name: str) -> list[Path]:
    hidden = (
        path for path in folder.rglob(name) if not any(part.startswith(".") for part in path.parts[len(folder.parts) :])
    )
    return sorted(path for path in hidden if not {"node_modules", "site-packages"} & {*path.parts})
