"""Plans the supported part of Dockerfiles, which runs without Docker: FROM, WORKDIR, COPY, RUN and ENV.

Only /work and /tmp of a sandbox are writable. So in the image that is made, every folder that the Dockerfile works in
or copies to is a link into /work. Files that it copies to system folders are in the image itself.
"""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from agentgym import TaskError

CARRIED_OUT = ("FROM", "WORKDIR", "COPY", "RUN", "ENV")
WITHOUT_EFFECT = ("CMD", "LABEL", "MAINTAINER", "EXPOSE", "STOPSIGNAL")
SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "etc", "boot", "var")
NOT_MAPPED = ("tmp", "work", "proc", "sys", "dev", "run")
FOLDERS = ("/app", "/logs", "/root", "/solution", "/tests")
"""Writable folders in every task: the default working folder, the home folder, and Harbor's own folders."""
WORKDIR = "/app"
"""The folder in which commands run without a WORKDIR."""
STORE = "/work/files"
"""Root of these folders in the sandbox: commands see /work/files/app as /app."""
VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
HEREDOC = re.compile(r"<<-?\s*[\"']?\w+")


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a plan: make a folder, write a file, or run a command.

    Attributes:
        kind: `folder`, `file` or `run`.
        path: the path of the folder or file.
        data, mode: the file's content and permissions.
        argv, cwd, environment: the command, its folder and its variables.
    """

    kind: str
    path: str = ""
    data: bytes = b""
    mode: int = 0o644
    argv: tuple[str, ...] = ()
    cwd: str = ""
    environment: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """The plan of a Dockerfile: `base` names an image; `folders` become links into /work; `system` has files of the
    image itself by path, with their modes.
    """

    base: str
    folders: tuple[str, ...]
    system: Mapping[str, tuple[bytes, int]]
    steps: tuple[Step, ...]
    workdir: str
    environment: tuple[tuple[str, str], ...]


def parse_plan(text: str) -> list[tuple[str, str]]:
    """Return the instructions with their arguments. Raises: TaskError naming all unsupported instructions."""
    instructions: list[tuple[str, str]] = []
    pending = ""
    for line in text.splitlines():
        if line.lstrip().startswith("#") or not (pending or line.strip()):
            continue
        pending += line.rstrip()
        if pending.endswith("\\"):
            pending = pending[:-1]
            continue
        name, _, rest = pending.strip().partition(" ")
        instructions.append((name.upper(), rest.strip()))
        pending = ""
    wrong = sorted({name for name, _ in instructions} - {*CARRIED_OUT, *WITHOUT_EFFECT})
    wrong += [f"{name} {rest[:40]}" for name, rest in instructions if HEREDOC.search(rest)]
    wrong += [f"a second FROM {rest[:40]}" for name, rest in instructions[1:] if name == "FROM"]
    if wrong:
        raise TaskError(
            f"its Dockerfile has {', '.join(wrong)}, but only {', '.join(CARRIED_OUT)} are supported, and FROM only "
            "once"
        )
    if not instructions or instructions[0][0] != "FROM":
        raise TaskError("its Dockerfile does not begin with FROM")
    return instructions


def plan_of(instructions: Sequence[tuple[str, str]], context: Mapping[str, tuple[bytes, int]]) -> BuildPlan:
    """Return the plan of a Dockerfile. `context`: the files beside it, by path.

    Raises: TaskError for an instruction that cannot be carried out, or a missing file.
    """
    base, workdir = "", WORKDIR
    environment: dict[str, str] = {}
    steps: list[Step] = []
    system: dict[str, tuple[bytes, int]] = {}
    folders: set[str] = set(FOLDERS)

    known = {workdir}

    def enter(path: str) -> None:
        if folder := mapped_folder(path):
            folders.add(folder)

    for name, rest in instructions:
        if name == "FROM":
            base = rest.split(" ")[0]
        elif name == "ENV":
            environment |= {key: expanded(value, environment, keep=True) for key, value in _variables(rest).items()}
        elif name == "WORKDIR":
            workdir = _absolute(expanded(rest, environment), workdir)
            known.add(workdir)
            enter(workdir)
            steps.append(Step("folder", workdir))
        elif name == "RUN":
            argv = tuple(_json_words(rest) or ("sh", "-c", rest))
            steps.append(Step("run", argv=argv, cwd=workdir, environment=tuple(environment.items())))
        elif name == "COPY":
            for path, file in _copied(expanded(rest, environment), context, workdir, known):
                if mapped_folder(posixpath.dirname(path)):
                    enter(posixpath.dirname(path))
                    steps.append(Step("file", path, *file))
                elif path.split("/")[1] in SYSTEM:
                    system[path] = file
                else:
                    raise TaskError(
                        f"its Dockerfile copies to {path}, which is not possible: the target must be a folder other "
                        f"than {NOT_MAPPED}"
                    )
    enter(workdir)
    outermost = {path for path in folders if not any(path.startswith(f"{other}/") for other in folders)}
    first = [Step("folder", path) for path in (*sorted(outermost), workdir)]
    return BuildPlan(base, tuple(sorted(outermost)), system, (*first, *steps), workdir, tuple(environment.items()))


def mapped_folder(path: str) -> str:
    """Return the folder that must become a link into /work so that a path is writable: the topmost folder of the path
    that is not a system folder.

    Empty for a path that is writable anyway, and for system folders.
    """
    parts = path.strip("/").split("/")
    if parts[0] in ("", *NOT_MAPPED):
        return ""
    if parts[0] not in SYSTEM:
        return f"/{parts[0]}"
    is_own = parts[:2] in (["usr", "src"], ["var", "www"], ["var", "lib"]) and len(parts) > 2
    return f"/{'/'.join(parts)}" if is_own else ""


def stored(path: str, folders: Sequence[str]) -> str:
    """Return the sandbox path of a file that commands know by `path`. `folders`: those that are links into /work."""
    inside = any(path == folder or path.startswith(f"{folder}/") for folder in folders)
    return f"{STORE}{path}" if inside else path


def expanded(text: str, environment: Mapping[str, str], *, keep: bool = False) -> str:
    """Return a text with its variables replaced by their values. A variable without a value becomes empty or, with
    `keep`, stays as it is, because the base image may set it.
    """
    return VARIABLE.sub(lambda match: environment.get(match[1] or match[2], match[0] if keep else ""), text)


def _variables(rest: str) -> dict[str, str]:
    words = _words(rest)
    if words and "=" not in words[0]:
        return {words[0]: " ".join(words[1:])}
    return dict(word.split("=", 1) for word in words if "=" in word)


def _words(text: str) -> list[str]:
    try:
        return _json_words(text) or shlex.split(text)
    except ValueError as error:
        raise TaskError(f"its Dockerfile has {text[:60]!r}: {error}") from error


def _json_words(text: str) -> list[str]:
    """Return the words of an instruction in JSON form; [] for other instructions, such as `[ -f x ] || touch
    x`.
    """
    try:
        words = json.loads(text) if text.startswith("[") else []
    except (ValueError, RecursionError):
        return []
    return words if all(isinstance(word, str) for word in words) else []


def _absolute(path: str, workdir: str) -> str:
    return posixpath.normpath(posixpath.join(workdir, path))


def _copied(
    rest: str, context: Mapping[str, tuple[bytes, int]], workdir: str, known: Container[str]
) -> Iterator[tuple[str, tuple[bytes, int]]]:
    """Yield the target path and the file for each file that a COPY copies. `known`: folders that exist before it."""
    flags = [word for word in rest.split(" ") if word.startswith("--")]
    modes = [int(flag[8:], 8) for flag in flags if re.fullmatch(r"--chmod=[0-7]{3,4}", flag)]
    mode = modes[0] if modes else None
    if wrong := [flag for flag in flags if not re.fullmatch(r"--chown=.*|--chmod=[0-7]{3,4}", flag)]:
        raise TaskError(f"its Dockerfile has COPY {wrong[0]}, which is not supported")
    *sources, target = _words(" ".join(word for word in rest.split(" ") if word not in flags)) or [""]
    if not sources:
        raise TaskError(f"its Dockerfile has COPY {rest[:60]}, which lacks its files or its target")
    into = _absolute(target, workdir)
    is_folder = posixpath.basename(target) in ("", ".", "..") or len(sources) > 1 or into in known
    for source in sources:
        name = posixpath.normpath(source.lstrip("/") or ".")
        below = {path: file for path, file in context.items() if name == "." or path.startswith(f"{name}/")}
        plain = {
            path: file
            for path, file in context.items()
            if fnmatchcase(path, name) and path.count("/") == name.count("/")
        }
        if not below and not plain:
            raise TaskError(f"its Dockerfile copies {source!r}, which is not beside it")
        for path, (data, own) in below.items():
            short = path if name == "." else path[len(name) + 1 :]
            yield posixpath.join(into, short), (data, mode or own)
        for path, (data, own) in plain.items():
            yield (posixpath.join(into, posixpath.basename(path)) if is_folder else into), (data, mode or own)
