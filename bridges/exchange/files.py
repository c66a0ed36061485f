"""What is pushed of a task set, a run or a folder, and how what is pulled arrives."""

from __future__ import annotations

import dataclasses
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agentgym import Task, TaskSet
from agentgym.storage import RunFolder

from .remotes import Address, ExchangeError

_LOCAL_FOLDERS = ("__pycache__", "build", "dist")


def push(source: Path, target: str, *, message: str = "", private: bool = True) -> Address:
    """Make a task set, a run's model or a folder the newest files of a remote.

    A task set brings the files that its tasks name relative to it; a run its final checkpoint, recipe and evaluations.
    Of a folder, what begins with a dot stays here, so do build folders.

    Returns: the address with the new revision, which always means these files. Raises: ExchangeError, TaskError.
    """
    address = Address.parse(target)
    if address.path:
        raise ExchangeError(f"{target}: files are pushed as a whole. Leave out #{address.path}.")
    with tempfile.TemporaryDirectory(prefix="agentgym-push-") as scratch:
        staged = Path(scratch) / "files"
        staged.mkdir()
        for path, name in _pushed(source):
            if ".git" in Path(name).parts:
                raise ExchangeError(f"{path} belongs to git's own files. Move it to another folder.")
            copy = staged / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
        if not (staged / "README.md").exists():
            (staged / "README.md").write_text(_card(source, target), encoding="utf-8")
        with address.opened() as remote:
            revision = remote.replace(staged, address.revision, message or f"Push {source.name}", private=private)
    return dataclasses.replace(address, revision=revision)


def pull(source: str, target: Path) -> Address:
    """Copy a remote, or a file or folder of it, to `target`, which must not exist yet; links are not followed out.

    Returns: the address with the exact revision. Raises: ExchangeError.
    """
    if target.exists():
        raise ExchangeError(f"{target} exists already. Name another one with --out, or remove it.")
    address = Address.parse(source)
    with address.opened() as remote:
        folder, revision = remote.files(address.revision)
        requested = folder / address.path
        if not requested.exists():
            there = ", ".join(sorted(path.name for path in folder.iterdir())[:20])
            raise ExchangeError(f"{source}: there is no {address.path!r}, only {there}.")
        partial = target.with_name(f".{target.name}.partial")
        partial.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(partial, ignore_errors=True)
        if requested.is_file():
            shutil.copyfile(_inside(requested, folder), partial)
        else:
            for path in (path for path in requested.rglob("*") if path.is_file()):
                copy = partial / path.relative_to(requested)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(_inside(path, folder), copy)
        partial.rename(target)
    return dataclasses.replace(address, revision=revision)


def _pushed(source: Path) -> Iterator[tuple[Path, str]]:
    """Yield the files of a source, and their names in the remote."""
    if source.suffix == ".jsonl" and source.is_file():
        yield source, source.name
        for path in sorted(_named_by(TaskSet.from_jsonl(source), source.parent.resolve())):
            yield path, path.relative_to(source.parent.resolve()).as_posix()
    elif source.is_file():
        yield source, source.name
    elif _is_training(source):
        run = RunFolder.existing(source)
        final = run.checkpoints / "final"
        if not final.is_dir():
            raise ExchangeError(
                f"{source} has no final checkpoint yet. Let the run end, or push one of its checkpoints."
            )
        yield from ((path, path.relative_to(final).as_posix()) for path in _own(final))
        for path in (run.recipe, *sorted((source / "evaluation").glob("*.json"))):
            yield path, path.relative_to(source).as_posix()
    elif source.is_dir():
        yield from ((path, path.relative_to(source).as_posix()) for path in _own(source))
    else:
        raise ExchangeError(f"There is no file or folder {source}. Check the path.")


def _named_by(tasks: TaskSet, folder: Path) -> set[Path]:
    """Return the files in a folder that tasks name. `TaskSet.from_jsonl` has made their paths absolute."""
    named = (Path(text) for split in tasks.values() for task in split for text in _texts(task))
    inside = {path for path in named if path.is_absolute() and path.is_relative_to(folder) and path.exists()}
    return {file for path in inside for file in ([path] if path.is_file() else _own(path))}


def _texts(task: Task) -> Iterator[str]:
    waiting: list[Any] = [task.parameters, task.truth]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str) and len(value) < 4096 and "\0" not in value:
            yield value
        elif isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list | tuple):
            waiting += value


def _own(folder: Path) -> list[Path]:
    """Return the files below a folder that are not this machine's alone. Raises: ExchangeError for a link out of it."""
    paths = sorted(folder.rglob("*"))
    hidden = {path for path in paths if path.name.startswith(".") or path.name in _LOCAL_FOLDERS}
    hidden |= {path for path in paths if path.name.endswith(".egg-info")}
    return [_inside(path, folder) for path in paths if path.is_file() and not hidden & {path, *path.parents}]


def _inside(path: Path, folder: Path) -> Path:
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ExchangeError(f"{path} is a link that leads out of {folder}. Replace it by the file itself.")
    return path


def _is_training(source: Path) -> bool:
    """Return whether a folder is a training run's: other folders may have one named `checkpoints` or `evaluation`."""
    written = ("checkpoints", "metrics.jsonl", "ledger.sqlite")
    return (source / "recipe.toml").is_file() and any((source / name).exists() for name in written)


def _card(source: Path, target: str) -> str:
    """Return a page that says what was pushed, and how it is used."""
    lines = [f"# {source.stem}", ""]
    if source.suffix == ".jsonl":
        tasks = TaskSet.from_jsonl(source)
        counts = ", ".join(f"{name} {len(split)}" for name, split in tasks.items() if split)
        environments = sorted({task.environment for split in tasks.values() for task in split})
        lines += [f"Tasks for agentgym: {counts}; played in {', '.join(environments)}.", ""]
        lines += [
            f"    agentgym pull '{target}' --out {source.stem}",
            f"    agentgym tasks show {source.stem}/{source.name}",
        ]
    elif _is_training(source):
        for file in sorted((source / "evaluation").glob("*.json")):
            rows = json.loads(file.read_text(encoding="utf-8")).get("rows", [])
            scores = [score for row in rows for score in row.get("success", ())]
            if scores:
                lines += [f"{file.stem}: {sum(scores) / len(scores):.1%} of {len(rows)} held-out tasks"]
        lines += ["", "Trained by agentgym with `recipe.toml`.", "", f"    agentgym pull '{target}' --out model"]
    else:
        lines += [f"    agentgym pull '{target}' --out {source.name}"]
    return "\n".join([*lines, ""])
