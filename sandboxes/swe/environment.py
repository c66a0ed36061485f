"""`agentgym/swe-v1` and `agentgym/swe-edit-v1`: a repository with a bug, and the tools to find and fix it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Any

from agentgym import (
    Checkpoint,
    Environment,
    GuestModule,
    GuestStopped,
    Message,
    ObservedState,
    SandboxError,
    SandboxSpec,
    SandboxUnavailable,
    Task,
    TaskError,
    ToolError,
    Workspace,
    tool,
)
from agentgym.sandbox import Sandbox, Snapshot, rootfs

from .commands import run_command
from .parameters import RepositoryParameters, repository_named, repository_of
from .patch import make_patch
from .projects import COPY_BUILT, lock_project, source_folders
from .repository import PREFIX, QUIET, ROOT, apply_patch, import_path, in_environment, prepared
from .runners import RUNNERS, SuiteRunner
from .sources import PINNED, fetch
from .wheels import HERE, lock

MAX_SHOWN, MAX_LINES = 6_000, 200
TEST_S, SHELL_S, ASK_S = 120.0, 60.0, 20.0
SUBMITTED = "Submitted. Your changes:\n"
SYSTEM = (
    "A repository lies in the working directory. Mend what the issue describes, then submit. Tests that you change \
do not count: others judge."
)
PYTEST_MODULES = (
    "assertion.rewrite cacheprovider capture debugging doctest faulthandler junitxml legacypath logging monkeypatch "
    "pastebin recwarn setuponly setupplan skipping stepwise terminal threadexception tmpdir unittest "
    "unraisableexception warnings"
)
WARM = ("pytest", *(f"_pytest.{name}" for name in PYTEST_MODULES.split()))
"""pytest, and the modules that it imports at every start: preloading them halves the start of a test run."""
REPOSITORY = GuestModule(__package__, "guest_repository")


class SweEdit(Environment):
    """A repository to fix with search, view and edit tools, but no shell. Not isolated: its own tests see its files.

    Task parameters: see `RepositoryParameters`. The agent's changes are submitted as a diff of files, made outside the
    sandbox; the reward `repository_tests` judges it in another sandbox.
    """

    sandbox = SandboxSpec(memory_mib=1024, processes=64, disk_mib=256, inodes=50_000, preload=WARM)
    reward = "repository_tests"
    task_set = "swe/c-v1"
    _task: RepositoryParameters
    _base: Snapshot  # the repository as the agent first sees it

    def __init__(self) -> None:
        self._fork: Sandbox | None = None
        self._observed = ObservedState()
        self._submits = 0

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Fork the prepared repository. Raises: TaskError if it does not exist, or the task's patch does not fit it."""
        await self._open(task)
        await self._fork_from(self._base)
        return [Message("system", SYSTEM), *task.opening()]

    @tool(parallel=False)
    async def files(self, path: str = ".") -> str:
        """List the files under a folder."""
        return await self._ask("listing", _inside(path))

    @tool(parallel=False)
    async def search(self, pattern: str, path: str = ".") -> str:
        """Find lines that match a regular expression."""
        return await self._ask("search", pattern, _inside(path))

    @tool(parallel=False)
    async def view(self, path: str, start: int = 1, count: int = 80) -> str:
        """Show lines of a file, with their numbers."""
        lines = (await self._text(path)).split("\n")
        first = min(max(start, 1), len(lines))
        page = lines[first - 1 : first - 1 + min(max(count, 1), MAX_LINES)]
        numbered = "\n".join(f"{number}\t{line}" for number, line in enumerate(page, first))
        remaining = len(lines) - first + 1 - len(page)
        return self._observed.add(_cut(numbered) + (f"\n[{remaining} more lines]" if remaining else ""))

    @tool(parallel=False)
    async def replace(self, path: str, old: str, new: str) -> str:
        """Replace a piece of a file that occurs exactly once."""
        text = await self._text(path)
        if not old:
            raise ToolError("`old` is empty: give the text to be replaced, with enough around it to occur once.")
        if (count := text.count(old)) != 1:
            raise ToolError(_not_once(path, text, old, count))
        at = text.count("\n", 0, text.index(old)) + 1
        await self._write(path, text.replace(old, new))
        return f"Replaced at line {at} of {path}.{await self._syntax_note(path)}"

    @tool(parallel=False)
    async def create(self, path: str, content: str) -> str:
        """Write a new file."""
        inside = _inside(path)
        if await self._exists(inside):
            raise ToolError(f"{path} exists already: change it with replace.")
        await self._write(path, content)
        return f"Created {path}.{await self._syntax_note(path)}"

    @tool(parallel=False)
    async def patch(self, diff: str) -> str:
        """Apply a unified diff."""
        try:
            await apply_patch(self._sandbox, diff)
        except TaskError as error:
            raise ToolError(str(error)) from error
        return "Applied."

    @tool(timeout_s=TEST_S + 30, parallel=False)
    async def test(self, selection: str = "") -> str:
        """Run tests, all or those of a file, a test id or a word of their names."""
        words = selection.split() if self._task.test_runner else _selected(selection)
        return self._observed.add(await self._run_tests(words))

    @tool(final=True, max_output_chars=400_000, timeout_s=TEST_S + 60, parallel=False)
    async def submit(self) -> str:
        """Hand in the changes as they are."""
        self._submits += 1
        diff = await self._diff()
        if self._submits < self._task.attempts and self._task.tests:
            report = await self._run_tests(list(self._task.tests))
            if not report.startswith("[all passed]"):
                remaining = self._task.attempts - self._submits
                raise ToolError(f"Not mended yet; {remaining} more attempts.\n{report}\n{self._task.guidance}".rstrip())
        return SUBMITTED + diff

    async def state_key(self) -> str | None:
        """Return a hash of all files and of the results seen so far, regardless of their order."""
        return self._observed.key((await self._sandbox.snapshot()).id)

    async def workspace(self) -> Workspace | None:
        variables = {**QUIET, "PYTHONPATH": import_path(self._task.path)}
        return Workspace(self._sandbox, f"/work/{ROOT}", "submit", variables, (f"/work/{PREFIX}/bin",))

    async def checkpoint(self) -> Checkpoint | None:
        return Checkpoint({**self._observed.data(), "submits": self._submits}, await self._sandbox.snapshot())

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        await self._open(task)
        assert checkpoint.snapshot is not None
        await self._fork_from(checkpoint.snapshot)
        self._observed.restore(checkpoint.data)
        self._submits = checkpoint.data["submits"]

    # ---- inside ------------------------------------------------------------------------------------------------

    @classmethod
    def environment_of(
        cls,
        repository: str,
        *,
        python: str = "",
        requirements: Sequence[str] = (),
        files: Sequence[str] = (),
        extras: str = "",
        version: str = "",
    ) -> dict[str, Any]:
        """Return the parameters of a task on a repository, after resolving its packages and putting them into the
        cache.

        If there is no image with the required version of Python yet, one is made from an interpreter installed here.

        Args: `repository` as in a task; a source distribution (name==version) is fetched if necessary; empty for tasks
            that have `files`. The others as for `projects.lock_project`; `python` is empty for the host's version.
        Raises: TaskError if this version of Python is missing, pip cannot resolve the packages, or the build fails.
        """
        if PINNED.fullmatch(repository):
            fetch(repository)
        if python not in ("", HERE):
            try:
                rootfs.make_python_image(python)
            except SandboxUnavailable as error:
                raise TaskError(str(error)) from error
        python = python or HERE
        if not repository:
            return {"python": python, "requirements": lock([*requirements, "pytest"], python)}
        files_of = repository_named(repository)
        pins = lock_project(files_of, requirements, files=files, extras=extras, python=python, version=version)
        return {"python": python, "source": source_folders(files_of), "requirements": pins, "setup": [COPY_BUILT]}

    @property
    def _sandbox(self) -> Sandbox:
        if self._fork is None:
            raise SandboxError("The repository environment was used before reset. Call reset first.")
        return self._fork

    async def _open(self, task: Task) -> None:
        """Read the task, and prepare its repository."""
        if self.backend is None:
            await self.open_sandbox()  # reports what is missing
        assert self.backend is not None
        self._task = RepositoryParameters.of(task)
        repository = await repository_of(self._task, task.id)
        try:
            self._base = await prepared(
                self.backend, self._spec, repository, self._task.patch, **self._task.preparation
            )
        except TaskError as error:
            raise TaskError(f"{task.id}: {error}") from error
        self._observed, self._submits = ObservedState(), 0

    async def _fork_from(self, snapshot: Snapshot) -> None:
        if self._fork is not None:
            await self._fork.close()
        self._fork = await self.open_sandbox(self._spec, snapshot=snapshot)

    async def _diff(self) -> str:
        """Return the agent's changes, found by the content hash of every file, without git."""
        now = await self._sandbox.snapshot()
        prefix = f"work/{ROOT}/".encode()
        changed: dict[str, bytes | None] = {}
        before: dict[str, bytes] = {}
        for raw in {*self._base.entries, *now.entries}:
            name = raw.lstrip(b"/")
            if not name.startswith(prefix) or self._base.entries.get(raw) == now.entries.get(raw):
                continue
            path = name[len(prefix) :].decode("utf-8", "replace")
            if path.partition("/")[0] in (".git", ".pytest_cache") or "__pycache__" in path or path.endswith(".pyc"):
                continue
            changed[path] = await self._content(self._sandbox, path)
        if changed:
            pristine = await self.open_sandbox(self._spec, snapshot=self._base)
            try:
                for path in changed:
                    if (content := await self._content(pristine, path)) is not None:
                        before[path] = content
            finally:
                await pristine.close()
        return make_patch(before, changed)

    @property
    def _spec(self) -> SandboxSpec:
        assert self.sandbox is not None
        return self._task.spec(self.sandbox)

    async def _content(self, sandbox: Sandbox, path: str) -> bytes | None:
        """Return a regular file's bytes; None if there is none.

        Raises: ToolError if it is too large to be submitted.
        """
        try:
            return await sandbox.read(f"{ROOT}/{path}", max_bytes=2**20)
        except (FileNotFoundError, IsADirectoryError, PermissionError):
            return None
        except ValueError as error:
            raise ToolError(f"{path} is too large to be handed in. Remove it.") from error

    async def _text(self, path: str) -> str:
        inside = _inside(path)
        try:
            return (await self._sandbox.read(f"{ROOT}/{inside}", max_bytes=2**21)).decode("utf-8")
        except FileNotFoundError as error:
            raise ToolError(await self._no_file(path)) from error
        except (OSError, ValueError) as error:
            raise ToolError(f"{path[:200]} cannot be read as text: a folder, too large, or not UTF-8.") from error

    async def _no_file(self, path: str) -> str:
        listing: str = await REPOSITORY.call(self._sandbox, "listing", ".", timeout_s=ASK_S)
        close = get_close_matches(path, listing.splitlines(), n=1, cutoff=0.5)
        return f"There is no file {path!r}." + (f" Did you mean {close[0]}?" if close else " Look with files.")

    async def _exists(self, inside: str) -> bool:
        try:
            await self._sandbox.read(f"{ROOT}/{inside}", max_bytes=1)
        except FileNotFoundError:
            return False
        except (OSError, ValueError):
            return True
        return True

    async def _write(self, path: str, text: str) -> None:
        try:
            await self._sandbox.write(f"{ROOT}/{_inside(path)}", text.encode("utf-8"))
        except (OSError, ValueError) as error:
            raise ToolError(f"{path[:200]} cannot be written: {str(error)[:200]}.") from error

    async def _syntax_note(self, path: str) -> str:
        """Return a note if a Python file cannot be parsed after an edit."""
        if not path.endswith(".py"):
            return ""
        note: str = await REPOSITORY.call(self._sandbox, "syntax_note", _inside(path), timeout_s=ASK_S)
        return note

    async def _run_tests(self, arguments: list[str]) -> str:
        if self._task.test_runner is not None:
            return await self._run_command(self._task.test_runner, arguments)
        path = list(self._task.path)
        result = await REPOSITORY.run(self._sandbox, "run_tests", arguments, path, timeout_s=TEST_S)
        if result.timed_out or result.oom_killed:
            return f"[stopped: the tests took more than {'memory allows' if result.oom_killed else f'{TEST_S:g} s'}]"
        text = result.text.strip() or result.stderr.decode("utf-8", "replace").strip()
        mark = "[all passed]" if result.exit_code == 0 else "[not all passed]"
        return f"{mark}\n{RUNNERS['pytest'].without_durations(text)[-MAX_SHOWN:]}"

    async def _run_command(self, runner: SuiteRunner, words: list[str]) -> str:
        """Run the tests' command. Returns: the outcomes of the tests whose ids contain one of the words, or of all."""
        result = await run_command(self._sandbox, self._task, cpu_s=int(TEST_S), timeout_s=TEST_S)
        if result.timed_out or result.oom_killed:
            return f"[stopped: the tests took more than {'memory allows' if result.oom_killed else f'{TEST_S:g} s'}]"
        report = runner.parse(result.stdout.decode("utf-8", "replace"))
        names = [name for name in report.outcomes if not words or any(word in name for word in words)]
        if not names and report.outcomes:
            listing = _cut("\n".join(report.outcomes))
            return f"[not all passed]\nNo test has one of these words in its name. The tests are:\n{listing}"
        if not names:
            text = (result.stdout + result.stderr).decode("utf-8", "replace").strip()
            return f"[not all passed]\nNo test was reported.\n{runner.without_durations(text)[-MAX_SHOWN:]}"
        lines = [f"{report.outcomes[name]}: {name}\n{report.reasons.get(name, '')}".rstrip() for name in names]
        failed = any(report.outcomes[name] == "failed" for name in names)
        return f"[{'not all' if failed else 'all'} passed]\n{_cut(runner.without_durations(chr(10).join(lines)))}"

    async def _ask(self, function: str, *arguments: str) -> str:
        """Return the result of a function of the guest. Raises: ToolError."""
        try:
            answer: str = await REPOSITORY.call(self._sandbox, function, *arguments, timeout_s=ASK_S)
        except GuestStopped as error:
            raise ToolError(f"{function} took too long. Ask for less: one folder, or a simpler pattern.") from error
        return self._observed.add(_cut(answer))


class Swe(SweEdit):
    """A repository to fix, with a shell in addition to the edit tools. Not isolated: its own tests see its files.

    Task parameters and judging: as in `SweEdit`.
    """

    task_set = "swe/one-line-shell-v1"

    @tool(timeout_s=SHELL_S + 10, parallel=False)
    async def shell(self, command: str) -> str:
        """Run a command in the repository."""
        result = await self._sandbox.exec(
            ["sh", "-c", in_environment(command)],
            cwd=ROOT,
            env={**QUIET, "PYTHONPATH": import_path(self._task.path)},
            timeout_s=SHELL_S,
        )
        output = (result.stdout + result.stderr).decode("utf-8", "replace").rstrip()
        if result.timed_out or result.oom_killed:
            raise ToolError(f"{_cut(output)}\nStopped: too much {'time' if result.timed_out else 'memory'}.".lstrip())
        ended = f"\n[ended with {result.exit_code}]" if result.exit_code else ""
        return self._observed.add(f"{_cut(output) or '[no output]'}{ended}")


def _inside(path: str) -> str:
    """Return a path relative to the repository. Raises: ToolError for a path outside the repository, or in .git."""
    cleaned = path.strip().removeprefix(f"/work/{ROOT}/").removeprefix("./").rstrip("/") or "."
    parts = cleaned.split("/")
    if cleaned.startswith("/") or ".." in parts or parts[0] == ".git" or "\0" in cleaned:
        raise ToolError(f"{path!r} is outside the repository: give a path relative to its top.")
    return cleaned


def _selected(selection: str) -> list[str]:
    words = selection.split()
    if not words:
        return []
    if len(words) == 1 and words[0][0] != "-" and any(mark in words[0] for mark in ("/", ".py", "::")):
        return words
    return ["-k", " or ".join(word for word in words if word.isidentifier())]


def _cut(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}\n[cut: {MAX_SHOWN} of {len(text)} characters]"


def _not_once(path: str, text: str, old: str, count: int) -> str:
    if count:
        lines = [text.count("\n", 0, position) + 1 for position in _positions(text, old)]
        return f"`old` occurs {count} times in {path}, at lines {lines[:8]}: give more of the text around it."
    close = get_close_matches(old.strip().split("\n")[0], text.split("\n"), n=1, cutoff=0.6)
    hint = f" The nearest line is {close[0]!r}." if close else ""
    return f"`old` does not occur in {path}.{hint} White space counts."


def _positions(text: str, old: str) -> list[int]:
    return [match.start() for match in islice(re.finditer(f"(?={re.escape(old)})", text), 8)]
