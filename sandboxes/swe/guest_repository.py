"""Runs inside the sandbox: searches files, and runs tests for the agent. Uses only the standard library and pytest.

This file is sent to the sandbox unchanged.
"""

from __future__ import annotations

import os
import re
import sys

SKIPPED = {".git", "__pycache__", ".pytest_cache", ".tox", ".eggs"}
MAX_HITS, MAX_LINE = 50, 200
PLAIN = ["-o", "addopts=", "-o", "filterwarnings="]  # a package's own options may name plugins that are not installed


class RequestRefused(Exception):
    """The request cannot be served; the message is written for the agent."""

    for_agent = True


def files_under(path: str) -> list[str]:
    """Return the regular files under a path, sorted, without git's own."""
    if os.path.isfile(path):
        return [path]
    paths = []
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if name not in SKIPPED)
        paths += [os.path.join(folder, name) for name in sorted(names) if os.path.isfile(os.path.join(folder, name))]
    return paths


def listing(path: str) -> str:
    """Return the files under a path, one per line."""
    begin([])
    if not os.path.exists(path):
        raise RequestRefused(f"There is no file or folder {path!r}.")
    paths = [os.path.relpath(name) for name in files_under(path)]
    more = f"\n[{len(paths) - 200} more files; name a folder]" if len(paths) > 200 else ""
    return "\n".join(paths[:200]) + more or "[no files]"


def search(pattern: str, path: str) -> str:
    """Return the lines that match a regular expression: file:line: text."""
    begin([])
    try:
        matcher = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise RequestRefused(f"{pattern[:80]!r} is no regular expression: {error}.") from error
    if not os.path.exists(path):
        raise RequestRefused(f"There is no file or folder {path!r}.")
    hits = []
    for name in files_under(path):
        try:
            with open(name, encoding="utf-8") as file:
                for number, line in enumerate(file, 1):
                    if matcher.search(line):
                        hits.append(f"{os.path.relpath(name)}:{number}: {line.rstrip()[:MAX_LINE]}")
        except (OSError, UnicodeDecodeError):
            continue
        if len(hits) > MAX_HITS:
            hits[MAX_HITS:] = ["[more; search in one folder or for something rarer]"]
            break
    return "\n".join(hits) or "[nothing found]"


def syntax_note(path: str) -> str:
    """Return a note if a file cannot be parsed as Python; an empty text if it can."""
    begin([])
    try:
        with open(path, encoding="utf-8") as file:
            compile(file.read(), path, "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError, OSError) as error:
        return f" Careful: it is no valid Python now ({str(error)[:120]})."
    return ""


def run_tests(arguments: list[str], source: list[str]) -> None:
    """Run pytest in this process, as a user would, with its output."""
    begin(source)
    import pytest

    code = pytest.main(["-q", "--tb=short", "-p", "no:cacheprovider", *PLAIN, *arguments])
    sys.stdout.flush()
    os._exit(int(code))


def compile_files(source: list[str]) -> tuple[str, bool]:
    """Compile all Python files. The compiled file is valid as long as the source's content is the same.

    Returns: the version of Python, and whether pytest is installed.
    """
    import compileall
    import importlib.util
    import py_compile
    import warnings

    warnings.simplefilter("ignore")
    for folder in ("/work/repo", "/work/packages"):
        compileall.compile_dir(folder, quiet=2, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)
    begin(source)
    return f"{sys.version_info[0]}.{sys.version_info[1]}", importlib.util.find_spec("pytest") is not None


def begin(source: list[str]) -> None:
    """Change to the repository, and make its sources importable, with nothing of it imported yet."""
    os.chdir("/work/repo")
    sys.dont_write_bytecode = True
    folders = [os.path.normpath(os.path.join("/work/repo", path)) for path in source]
    sys.path[:0] = folders
    os.environ["PYTHONPATH"] = os.pathsep.join([*folders, "/packages"])
    os.environ["PATH"] = "/work/packages/env/bin" + os.pathsep + os.environ.get("PATH", os.defpath)
    os.environ.setdefault("HOME", "/tmp")
