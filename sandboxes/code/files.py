"""`agentgym/code-files-v1`: a small project in a sandbox, with tools to read, edit, search, run, test and submit it."""

from __future__ import annotations

from agentgym import Checkpoint, Environment, Message, SandboxSpec, Task, ToolError, Workspace, tool

from .transcript import cut, report, transcript
from .workbench import RUN_S, Workbench, assertions_of, checked_path, files_of, text_of

MAX_LINES, MAX_HITS, MAX_CHARS = 200, 50, 8_000
SYSTEM = "You are given a project in /work. Change its files as asked, try them, then submit them."


class CodeFiles(Environment):
    """A project of several files in a sandbox without network. Not isolated: the agent's programs share the files.

    Task parameters: `files`, texts by path; `tests`, visible assertions (may be empty), and `imports`, the Python
    before them. The hidden checks are in the task's truth, which an environment never gets: the reward `final_files`
    runs them on the submitted files, in another sandbox.
    """

    sandbox = SandboxSpec(memory_mib=512, processes=64, disk_mib=64, preload=("json",))
    reward = "final_files"
    task_set = "code/projects-v1"
    _tests: list[str]
    _imports: str
    _bench: Workbench

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Begin a task. Raises: TaskError for invalid files or tests."""
        self._read(task, None)
        return [Message("system", SYSTEM), *task.opening()]

    @tool(name="list", parallel=False)
    async def list_files(self, path: str = ".") -> str:
        """Show the names in a folder. Folders end with a slash."""
        sandbox = await self._bench.sandbox()
        try:
            names = await sandbox.list(checked_path(path))
        except OSError as error:
            raise ToolError(f"{path} cannot be listed: {error.strerror or error}.") from error
        return cut("\n".join(names), MAX_CHARS) or "[empty]"

    @tool(parallel=False)
    async def read(self, path: str, first_line: int = 1) -> str:
        """Show up to 200 lines of a file.

        Args:
            path: relative to /work.
            first_line: where to begin, counted from 1.
        """
        lines = (await self._bench.read(checked_path(path))).splitlines()
        start = max(first_line, 1) - 1
        page = "\n".join(lines[start : start + MAX_LINES])
        remaining = len(lines) - start - MAX_LINES
        return cut(page, MAX_CHARS) + (f"\n[{remaining} more lines]" if remaining > 0 else "") or "[empty]"

    @tool(parallel=False)
    async def write(self, path: str, text: str) -> str:
        """Write a file; its folders are made, and what it held before is gone."""
        await self._bench.write(checked_path(path), text)
        return "Written."

    @tool(parallel=False)
    async def edit(self, path: str, old: str, new: str) -> str:
        """Replace a piece of a file.

        Args:
            path: relative to /work.
            old: what stands there now, exactly, and only once in the file.
            new: what shall stand there.
        """
        path = checked_path(path)
        if not old or old == new:
            raise ToolError("Nothing would change: `old` must not be empty, and `new` must differ from it.")
        text = await self._bench.read(path)
        if (count := text.count(old)) != 1:
            advice = "Read the file and copy the piece exactly, with its indentation."
            raise ToolError(
                f"`old` stands {count} times in {path}; it must stand there once. "
                + ("Give more of the lines around it." if count else advice)
            )
        await self._bench.write(path, text.replace(old, new))
        return "Replaced."

    @tool(parallel=False)
    async def search(self, pattern: str, path: str = ".") -> str:
        """Find lines in all files.

        Args:
            pattern: extended regular expression.
            path: file or folder to look in.
        """
        if "\x00" in pattern:
            raise ToolError("The pattern holds a null character.")
        argv = ["grep", "-rnIE", "--exclude-dir=.git", "--exclude-dir=__pycache__", "-e", pattern, checked_path(path)]
        result = await self._bench.command(argv)
        if result.exit_code > 1:
            raise ToolError(cut(result.stderr.decode("utf-8", "replace").strip() or "The search failed."))
        hits = sorted(line.removeprefix("./") for line in result.text.splitlines())
        more = [f"[{len(hits) - MAX_HITS} more lines]"] if len(hits) > MAX_HITS else []
        return cut("\n".join([*hits[:MAX_HITS], *more]), MAX_CHARS) or "[nothing found]"

    @tool(parallel=False)
    async def run(self, command: str) -> str:
        """Run a shell command in /work. Nothing of it goes on afterwards but its files."""
        if "\x00" in command:
            raise ToolError("The command holds a null character.")
        return transcript(await self._bench.command(["bash", "-c", command]), RUN_S, max_chars=4_000)

    @tool(parallel=False)
    async def test(self) -> str:
        """Run the visible tests on the files as they are."""
        if not self._tests:
            raise ToolError("This task has no visible tests. Try the files with run.")
        return report(await self._bench.run_tests(self._imports, "", self._tests), RUN_S)

    @tool(final=True, max_output_chars=1_500_000, parallel=False)
    async def submit(self) -> str:
        """Hand in the files as they are."""
        return await self._bench.submission()

    async def state_key(self) -> str | None:
        """Hash of all files, including those in /tmp."""
        return await self._bench.state_key()

    async def workspace(self) -> Workspace | None:
        return await self._bench.workspace("submit")

    async def checkpoint(self) -> Checkpoint | None:
        return await self._bench.checkpoint()

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        self._read(task, checkpoint)

    def _read(self, task: Task, checkpoint: Checkpoint | None) -> None:
        self._tests, self._imports = assertions_of(task), text_of(task, "imports")
        self._bench = Workbench(self, files_of(task), programs=("bash", "grep"), checkpoint=checkpoint)
