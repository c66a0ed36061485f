"""Finds what a repository adds to its environment: requirements, metadata, and files that its build makes.

The repository's code is not installed: it is imported from its folder, so that a patch has an effect. The other files
that `pip install -e .` creates are installed: metadata, compiled modules, generated files such as `_version.py`.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from agentgym import TaskError

from .pip import run_pip
from .repository import PREFIX, Repository
from .wheels import HERE, MAX_BYTES, cache, interpreter_of, lock, wheel

BUILT = "built"
COPY_BUILT = f"cp -rn ../{PREFIX}/{BUILT}/. . 2>/dev/null || true"
"""The set-up command that puts the build's files beside the sources."""


def source_folders(repository: Repository) -> list[str]:
    """Return the folders on a repository's import path: `src` or `lib` if it contains packages, and the top folder."""
    folders = {
        path.partition("/")[0] for path in repository.files if path.count("/") == 2 and path.endswith("/__init__.py")
    }
    return [*(folder for folder in ("src", "lib") if folder in folders), "."]


def lock_project(
    repository: Repository,
    requirements: Sequence[str] = (),
    *,
    files: Sequence[str] = (),
    extras: str = "",
    python: str = HERE,
    version: str = "",
) -> list[str]:
    """Return the `requirements` of a task on this repository: the packages that pip resolves, and the files that its
    build makes.

    The build runs on this host, as with `pip install`. Resolved packages are kept in the cache.

    Args:
        requirements: for pip, in addition to the repository's own. `files`: requirements files in the repository;
            missing ones are ignored. `extras`: extras of the repository, separated by commas.
        version: the version of a repository that takes its version from git.
    Raises: TaskError with pip's message.
    """
    key = json.dumps([repository.digest, list(requirements), list(files), extras, python, version])
    record = cache(python) / "locks" / f"{hashlib.sha256(key.encode()).hexdigest()}.json"
    if record.is_file():
        remembered: list[str] = json.loads(record.read_text())
        if all(wheel(pinned, python) for pinned in remembered):
            return remembered
    record.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=record.parent) as scratch:
        folder = Path(scratch) / "source"
        for path, content in repository.files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        own = _build(folder, Path(scratch), python, version, requirements)
        needs = [f"{own}[{extras}]" if extras else str(own), *requirements, "pytest"]
        for name in files:
            if (folder / name).is_file():
                needs += ["-r", str(folder / name)]
        pins = lock(needs, python, leave_out=own.name)
        pins.append(_keep_traces(own, repository, python, Path(scratch)))
        unfinished = Path(scratch) / record.name
        unfinished.write_text(json.dumps(pins))
        unfinished.replace(record)
    return pins


def _build(folder: Path, scratch: Path, python: str, version: str, requirements: Sequence[str]) -> Path:
    """Build the wheel of the source tree in `folder`, and return its path, below `scratch`.

    A tree without pyproject.toml whose build fails is built once more with the requirements installed.

    Raises: TaskError.
    """
    interpreter = interpreter_of(python)
    if interpreter is None:
        raise TaskError(
            f"the repository must be built with Python {python}, but no interpreter of this version with pip was "
            f"found. Install one, for example with `uv python install {python}` or `pyenv install {python}`"
        )
    command = [interpreter, "-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--no-deps", "--use-pep517"]
    command += ["--find-links", str(cache(python)), "-w", str(scratch)]
    command, variables = [*command, str(folder)], {"SETUPTOOLS_SCM_PRETEND_VERSION": version or "0"}
    error = run_pip(command, variables)
    project = folder / "pyproject.toml"
    if error and requirements and not project.exists():
        needed = json.dumps(["setuptools", *requirements])
        project.write_text(f"[build-system]\nrequires = {needed}\n")
        error = run_pip(command, variables)
    wheels = sorted(scratch.glob("*.whl"))
    if error or len(wheels) != 1:
        raise TaskError(f"the repository cannot be built with Python {python}: {error}")
    return wheels[0]


def _keep_traces(own: Path, repository: Repository, python: str, scratch: Path) -> str:
    """Keep a wheel in the cache, with a project's metadata and built files. Returns: the wheel's name==version."""
    name, version = own.name.split("-")[:2]
    with zipfile.ZipFile(own) as archive:
        if sum(member.file_size for member in archive.infolist()) > MAX_BYTES:
            raise TaskError(f"{own.name} has more than {MAX_BYTES} bytes.")
        contents = {member.filename: archive.read(member) for member in archive.infolist() if not member.is_dir()}
    digest = hashlib.sha256(repr(sorted(contents.items())).encode()).hexdigest()[:8]
    version += f"{'.' if '+' in version else '+'}src{digest}"
    folders = [folder for folder in source_folders(repository) if folder != "."]
    target = cache(python) / f"{name}-{version}-py3-none-any.whl"
    unfinished = scratch / "traces"
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in contents.items():
            top = PurePosixPath(path).parts[0]
            if top.endswith(".dist-info"):
                archive.writestr(path, content)
            elif not top.endswith(".data"):
                places = [f"{folder}/{path}" for folder in folders] or [path]
                if path not in repository.files and repository.files.keys().isdisjoint(places):
                    archive.writestr(f"{name}-{version}.data/data/{BUILT}/{places[0]}", content)
    unfinished.replace(target)
    return f"{name.replace('_', '-').lower()}=={version}"
