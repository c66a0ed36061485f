"""The files beside a Dockerfile: how they are read, left out by .dockerignore, and copied.

Files stand by path, as content and mode. The mode of a symbolic link or a folder has the type bits of `stat`; the mode
of a file has none. The content of a link is where it leads.
"""

from __future__ import annotations

import bz2
import io
import lzma
import posixpath
import re
import stat
import tarfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from agentgym import TaskError

from .build_steps import Copy, ImageConfig
from .dockerfile import Dockerfile

MAX_FILES, MAX_BYTES, MAX_LINKS = 2_000, 64 * 2**20, 20
MAX_UNPACKED = MAX_BYTES + 2**20  # with the headers of an archive's members
Files = Mapping[str, tuple[bytes, int]]
"""Contents and modes by path."""
FOLDER, LINK = stat.S_IFDIR | 0o755, stat.S_IFLNK | 0o777
IGNORE_FILE = ".dockerignore"
PACKED_S = 1_577_836_800
WILDCARD = re.compile(r"[*?\[]")
GLOB = re.compile(r"\\(.)|\[(\^?)((?:\\.|[^\]\\])+)\]|(.)", re.DOTALL)


def read_files(folder: Path) -> Files:
    """Return the files, links and folders below a folder, if it exists. Raises: TaskError for too many."""
    files: dict[str, tuple[bytes, int]] = {}
    size = 0
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        name, status = path.relative_to(folder).as_posix(), path.lstat()
        if stat.S_ISLNK(status.st_mode):
            files[name] = str(path.readlink()).encode("utf-8", "surrogateescape"), LINK
        elif stat.S_ISDIR(status.st_mode):
            files[name] = b"", FOLDER
        elif stat.S_ISREG(status.st_mode):
            size += status.st_size
            if size > MAX_BYTES or len(files) >= MAX_FILES:
                raise TaskError(f"{folder.name} contains more than {MAX_FILES} files or {MAX_BYTES} bytes")
            files[name] = path.read_bytes(), 0o755 if status.st_mode & 0o100 else 0o644
    return files


def check_sources(dockerfile: Dockerfile, context: Files) -> None:
    """Raise a TaskError for a file that the Dockerfile copies and the context lacks."""
    for stage in dockerfile.needed():
        steps, _ = stage.steps(ImageConfig())
        for step in steps:
            if isinstance(step, Copy) and not step.from_stage and "$" not in step.text:  # the base may set a variable
                copied_files(step, context, into_folder=step.into_folder)


def without_ignored(context: Files) -> Files:
    """Return the context without the files that its .dockerignore names."""
    if IGNORE_FILE not in context:
        return context
    lines = context[IGNORE_FILE][0].decode("utf-8", "replace").splitlines()
    excluded = _Excluded([line.strip() for line in lines if line.strip() and not line.startswith("#")])
    return {path: file for path, file in context.items() if not excluded.holds(path)}


def copied_paths(
    copy: Copy, folders: Mapping[str, bool], *, into_folder: bool, follow: Callable[[str], str] = str
) -> list[tuple[str, str]]:
    """Return what a COPY copies, as pairs of a source's path and an absolute target, folders before what they hold.

    Args:
        folders: all paths of the context or stage, without a slash before them; whether each is a folder.
        into_folder: whether the target is a folder, because of `copy.into_folder` or because the image has it.
        follow: returns where a source leads that is a link, or lies behind one. Links inside a source stay links.
    Raises: TaskError for a source that does not exist. A pattern may match nothing.
    """
    excluded = _Excluded(copy.exclude)
    pairs: list[tuple[str, str]] = []
    for source in copy.sources:
        above = _relative(source.partition("/./")[0]) if copy.with_parents and "/./" in source else ""
        names = _sources(copy, source, folders, follow)
        for name, path in names.items():
            target = copy.target
            if copy.with_parents:
                target = posixpath.join(target, posixpath.relpath(name or ".", above or "."))
            elif not folders.get(path, not path) and (into_folder or len(names) > 1):
                target = posixpath.join(target, posixpath.basename(name))
            if folders.get(path, not path) or not excluded.holds(posixpath.basename(name)):
                pairs.append((path, posixpath.normpath(target)))
            prefix = f"{path}/" if path else ""
            for inside in sorted(each for each in folders if each != path and each.startswith(prefix)):
                below = inside[len(prefix) :]
                if not excluded.holds(below):
                    pairs.append((inside, posixpath.normpath(posixpath.join(target, below))))
    return pairs


def copied_files(copy: Copy, context: Files, *, into_folder: bool) -> Files:
    """Return the files, links and folders that a COPY or ADD of the context makes, by their absolute paths.

    Args: `into_folder` as in `copied_paths`.
    Raises: TaskError for a source that does not exist, or an archive that cannot be unpacked.
    """
    entries = {"": (b"", FOLDER), **context}
    for path in context:
        entries.update({above: (b"", FOLDER) for above in _folders_above(path) if above not in entries})
    folders = {path: stat.S_ISDIR(mode) for path, (_, mode) in entries.items()}

    def follow(path: str) -> str:
        return _followed(path, entries)

    named = {path for source in copy.sources for path in _sources(copy, source, folders, follow).values()}
    created: dict[str, tuple[bytes, int]] = {}
    for source, target in copied_paths(copy, folders, into_folder=into_folder, follow=follow):
        data, mode = entries[source]
        inside = unpacked(data) if copy.unpacks and source in named and not stat.S_IFMT(mode) else None
        if inside is None:
            created[target] = data, mode
        else:
            created |= {posixpath.join(copy.target, path): file for path, file in inside.items()}
    for name, data in copy.documents:
        created[posixpath.join(copy.target, name) if into_folder else copy.target] = data, 0o644
    if copy.mode is not None:
        created = {path: (data, stat.S_IFMT(mode) | copy.mode) for path, (data, mode) in created.items()}
    return created


def unpacked(data: bytes) -> Files | None:
    """Return what a tar archive, compressed or not, holds; None for data that is none.

    Raises: TaskError for an archive that holds too much, or a path or hard link that leads out of it.
    """
    plain = _decompressed(data)
    if len(plain) >= MAX_UNPACKED > len(data):
        raise TaskError(f"an archive holds more than {MAX_BYTES} bytes; unpack it beside the Dockerfile, and COPY less")
    try:
        archive = tarfile.open(fileobj=io.BytesIO(plain), mode="r:")  # noqa: SIM115  # closed below
        members = archive.getmembers()
    except (tarfile.TarError, EOFError, ValueError, OverflowError):
        return None
    with archive:
        return _members(archive, members) if members else None


def _members(archive: tarfile.TarFile, members: Sequence[tarfile.TarInfo]) -> Files:
    files: dict[str, tuple[bytes, int]] = {}
    size = 0
    for member in members:
        path = posixpath.normpath(member.name.lstrip("/"))
        if path.startswith("../") or path == "..":
            raise TaskError(f"an archive holds {member.name!r}, which leads out of it; pack it anew")
        size += member.size if member.isreg() else 0
        if size > MAX_BYTES or len(files) >= MAX_FILES:
            raise TaskError(f"an archive holds more than {MAX_FILES} files or {MAX_BYTES} bytes")
        if member.isdir():
            files[path] = b"", stat.S_IFDIR | member.mode & 0o7777
        elif member.issym():
            files[path] = member.linkname.encode("utf-8", "surrogateescape"), LINK
        elif member.islnk():
            target = posixpath.normpath(member.linkname.lstrip("/"))
            if target not in files:
                raise TaskError(
                    f"an archive holds the hard link {member.name!r} to what it does not hold; pack it anew"
                )
            files[path] = files[target]
        elif (content := archive.extractfile(member)) is not None:  # None for devices and pipes
            files[path] = content.read(), member.mode & 0o7777
    return files


def _decompressed(data: bytes) -> bytes:
    """Return data without its compression by gzip, bzip2 or xz, at most as much as an archive may hold."""
    try:
        if data.startswith(b"\x1f\x8b"):
            return zlib.decompressobj(wbits=31).decompress(data, MAX_UNPACKED)
        if data.startswith(b"BZh"):
            return bz2.BZ2Decompressor().decompress(data, MAX_UNPACKED)
        if data.startswith(b"\xfd7zXZ"):
            return lzma.LZMADecompressor(memlimit=2**28).decompress(data, MAX_UNPACKED)
    except (zlib.error, OSError, EOFError, lzma.LZMAError):
        return b""
    return data


def _sources(copy: Copy, source: str, folders: Mapping[str, bool], follow: Callable[[str], str]) -> dict[str, str]:
    """Return the paths that a source names, and where each leads.

    Raises: TaskError for one without a wildcard that does not exist.
    """
    name = _relative(source)
    if WILDCARD.search(name):
        pattern = _Pattern(name, crosses=copy.with_parents)
        return {path: follow(path) for path in sorted(folders) if path and pattern.matches(path)}
    path = follow(name)
    if path and path not in folders:
        raise TaskError(f"its Dockerfile, line {copy.line}, copies {source!r}, which is not there; check its path")
    return {name: path}


def _relative(path: str) -> str:
    name = posixpath.normpath(f"/{path}").lstrip("/")
    return "" if name == "." else name


def _folders_above(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[: end + 1]) for end in range(len(parts))]


def _followed(path: str, files: Files) -> str:
    """Return a path with the links in it followed, inside the context."""
    parts, at, links = path.split("/"), "", 0
    while parts:
        at = _relative(posixpath.join(at, parts.pop(0)))
        data, mode = files.get(at, (b"", 0))
        if stat.S_ISLNK(mode):
            links += 1
            if links > MAX_LINKS:
                raise TaskError(f"the links at {path!r} lead in a circle")
            to = posixpath.join(posixpath.dirname(at), data.decode("utf-8", "surrogateescape"))
            parts, at = [*_relative(to).split("/"), *parts], ""
    return at


class _Pattern:
    """A pattern of paths with *, ? and [..], which stay within a name, and with **, which does not.

    Args: `crosses`: whether ** has its meaning, as in a .dockerignore; COPY takes it as *.
    """

    def __init__(self, pattern: str, *, crosses: bool) -> None:
        if crosses:
            pattern = re.sub(r"(?<=[^/])\*\*", "*/**", re.sub(r"\*\*(?=[^/])", "**/*", pattern))
        self._parts = [None if crosses and part == "**" else _regular(part) for part in pattern.split("/")]

    def matches(self, path: str) -> bool:
        """Tell whether a path matches, in time that grows with its length times the pattern's."""
        states = self._skipped({0})
        for part in path.split("/"):
            states = self._skipped(
                {state + (self._parts[state] is not None) for state in states if self._accepts(state, part)}
            )
        return len(self._parts) in states

    def _accepts(self, state: int, part: str) -> bool:
        if state == len(self._parts):
            return False
        expression = self._parts[state]
        return expression is None or expression.fullmatch(part) is not None

    def _skipped(self, states: set[int]) -> set[int]:
        """Return the states with those after a **, which may match nothing."""
        for state in range(len(self._parts)):
            if state in states and self._parts[state] is None:
                states.add(state + 1)
        return states


def _regular(pattern: str) -> re.Pattern[str]:
    """Return the regular expression of one name in a pattern."""
    pieces = [""]  # what stands between the stars
    for escaped, negation, members, plain in GLOB.findall(pattern):
        if plain == "*":
            pieces.append("")
        elif members:
            inside = "".join(re.escape(c) if c != "-" else c for c in re.sub(r"\\(.)", r"\1", members))
            pieces[-1] += f"[{negation}{inside}]"
        else:
            pieces[-1] += "." if plain == "?" else re.escape(escaped or plain)
    *between, last = pieces[1:] or [""]
    middle = "".join(f"(?>.*?{piece})" for piece in between)  # atomic, so that the time is bounded
    try:
        return re.compile(pieces[0] + middle + (f".*{last}" if len(pieces) > 1 else ""), re.DOTALL)
    except re.error as error:
        raise TaskError(f"the pattern {pattern!r} cannot be read: {error}") from error


class _Excluded:
    """Rules of a .dockerignore: a path is left out if the last rule that names it, or a folder above it, has no !."""

    def __init__(self, rules: Sequence[str]) -> None:
        cleaned = [(rule.startswith("!"), _relative(rule.removeprefix("!").strip())) for rule in rules]
        self._rules = [(keeps, _Pattern(rule, crosses=True)) for keeps, rule in cleaned if rule]

    def holds(self, path: str) -> bool:
        """Tell whether a path is left out."""
        candidates = [*_folders_above(path), path]
        named = [keeps for keeps, pattern in self._rules if any(map(pattern.matches, candidates))]
        return bool(named) and not named[-1]


def packed(files: Files) -> bytes:
    """Return a tar archive of files, links and folders, all with the same time: equal files make equal images."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, (data, mode) in files.items():
            if path == "/":
                continue
            info = tarfile.TarInfo(path.lstrip("/"))
            info.mode, info.mtime = stat.S_IMODE(mode), PACKED_S
            if stat.S_ISDIR(mode):
                info.type = tarfile.DIRTYPE
            elif stat.S_ISLNK(mode):
                info.type, info.linkname = tarfile.SYMTYPE, data.decode("utf-8", "surrogateescape")
            else:
                info.size = len(data)
            archive.addfile(info, io.BytesIO(data if info.isreg() else b""))
    return raw.getvalue()
