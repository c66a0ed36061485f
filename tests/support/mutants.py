"""A test suite is worth what it catches: errors of one line, each of which the tests named beside it must notice.

Every error is made in a copy of the package, against which real tests are then run, each time in a fork of one process
that has imported what all of them need but the package.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
CONTENT = ("methods", "sandboxes", "tasks", "rewards", "bridges", "formats", "testing")
TAIL = 3_000
"""The characters of pytest's output that an error message shows."""


@dataclass(frozen=True)
class Mutant:
    """An error in one file.

    Attributes:
        file: the file, relative to the package: `credit/group.py`, `methods/search/mcts.py`.
        right: what stands there, once.
        wrong: what the error makes of it.
        tests: the tests that must notice, relative to tests/ and divided by spaces: files, or `file::test`.
    """

    file: str
    right: str
    wrong: str
    tests: str

    def __str__(self) -> str:
        return f"{self.file}: {' '.join(self.wrong.split())}"


class MutatedPackage:
    """A copy of the framework, the methods and the content, in a folder that stands before the installed ones.

    Args:
        folder: an empty folder for the copy.
        imports: what all tests import besides the package; imported once.
    """

    def __init__(self, folder: Path, imports: Sequence[str] = ()) -> None:
        self.folder = folder
        without = shutil.ignore_patterns("*.pyc")
        shutil.copytree(ROOT / "agentgym", folder / "agentgym", ignore=without)
        for content in CONTENT:
            shutil.copytree(ROOT / content, folder / "agentgym" / content, ignore=without)
        self._imports = imports

    def __enter__(self) -> Self:
        command = [sys.executable, __file__, str(self.folder), *self._imports]
        self._server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.communicate()

    def passes(self, tests: Iterable[str]) -> bool:
        """Whether the tests pass against the copy. A file that cannot be imported any more is no test that failed."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        print(json.dumps(list(tests)), file=self._server.stdin, flush=True)
        code, output, source = json.loads(self._server.stdout.readline())
        assert code in (0, 1), output
        assert source.startswith(str(self.folder)), f"the tests ran against {source}"
        return code == 0

    def check(self, mutant: Mutant) -> None:
        """Fail if the error is not noticed."""
        path = self.folder / "agentgym" / mutant.file
        text = path.read_text()
        assert text.count(mutant.right) == 1, f"{mutant.file} has no single {mutant.right!r}: write the mutant anew"
        write(path, text.replace(mutant.right, mutant.wrong))
        try:
            assert not self.passes(mutant.tests.split()), f"nobody noticed {mutant.wrong!r} in {mutant.file}"
        finally:
            write(path, text)


def mutant_tests(mutants: Sequence[Mutant], *, always: int, imports: Sequence[str] = ()) -> tuple[Any, Any, Any]:
    """Return a fixture and two tests for the module of a table: the tests pass on the copy, and each error is caught.

    Args:
        always: how many of the errors `make test` tries; with 0, neither test is played by day.
        imports: what all tests import besides the package; imported once.
    """

    @pytest.fixture(scope="module")
    def mutated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MutatedPackage]:
        with MutatedPackage(tmp_path_factory.mktemp("mutated"), imports) as package:
            yield package

    @(pytest.mark.slow if always else pytest.mark.thorough)
    def test_the_tests_pass_on_the_copy(mutated: MutatedPackage) -> None:
        """Else an error would be caught by something else than itself."""
        assert mutated.passes(needed_tests(mutants, always))

    @pytest.mark.slow
    @pytest.mark.parametrize("mutant", cases(mutants, always))
    def test_an_error_is_caught(mutated: MutatedPackage, mutant: Mutant) -> None:
        mutated.check(mutant)

    return mutated, test_the_tests_pass_on_the_copy, test_an_error_is_caught


def cases(mutants: Sequence[Mutant], always: int) -> list[Any]:
    """Return the parameters of a test: every run tries `always` mutants, spread over the list, `make test-all` all."""
    every_run = tried(mutants, always)
    marks = [[] if mutant in every_run else [pytest.mark.thorough] for mutant in mutants]
    return [pytest.param(mutant, id=str(mutant), marks=mark) for mutant, mark in zip(mutants, marks, strict=True)]


def tried(mutants: Sequence[Mutant], always: int) -> list[Mutant]:
    """Return the mutants that `make test` tries too."""
    return [mutants[number * len(mutants) // always] for number in range(always)]


def needed_tests(mutants: Sequence[Mutant], always: int) -> list[str]:
    """Return the tests that must pass on the copy as it is: those that the mutants of this run name."""
    of_this_run = mutants if "AGENTGYM_TEST_ALL" in os.environ else tried(mutants, always)
    return sorted({name for mutant in of_this_run for name in mutant.tests.split()})


def write(path: Path, text: str) -> None:
    """Write a source file, and remove the compiled one, which could pass for that of another text of equal size."""
    path.write_text(text)
    Path(cache_from_source(path)).unlink(missing_ok=True)


def serve(folder: str, imports: Iterable[str]) -> None:
    """Run tests in forks, one list after the other: a line of JSON on standard input, an answer on standard output."""
    for name in ("pytest", "pytest_asyncio", "hypothesis", "numpy", *imports):
        importlib.import_module(name)
    sys.path.insert(0, folder)
    for line in sys.stdin:
        readable, writable = os.pipe()
        if os.fork() == 0:
            with open(writable, "w") as answer:
                json.dump(run_tests(json.loads(line)), answer)
            os._exit(0)
        os.close(writable)
        with open(readable) as answer:
            print(answer.read() or json.dumps((-1, "the tests ended their process", folder)), flush=True)
        os.wait()


def run_tests(names: list[str]) -> tuple[int, str, str]:
    """Run tests. Returns: the exit code, the end of the output, and where the package was imported from."""
    paths = [str(TESTS / name) for name in names]
    own_conftest = Path(names[0]).parent  # and not that of all tests, which looks for what they leave behind
    arguments = [
        "-x",
        "-q",
        "--timeout=60",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-p",
        "no:unraisableexception",
        f"--rootdir={ROOT}",
    ]
    arguments += [f"--confcutdir={TESTS / own_conftest}", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    with redirect_stdout(io.StringIO()) as output, redirect_stderr(output):
        code = pytest.main([*arguments, *paths])
    return int(code), output.getvalue()[-TAIL:], str(importlib.import_module("agentgym").__file__)


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2:])
