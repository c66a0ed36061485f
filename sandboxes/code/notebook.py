"""`agentgym/code-notebook-v1`: a notebook that keeps its variables from cell to cell, with data files."""

from __future__ import annotations

import hashlib
import json

from agentgym import Checkpoint, Environment, Message, SandboxError, SandboxSpec, Task, ToolError, tool

from .transcript import report
from .workbench import RUN_S, Workbench, files_of

SYSTEM = "You have a Python notebook in /work: variables live from cell to cell. Work it out, then submit."
RESTARTED = "\x00restart"

# Shows the value of a cell's last expression, as notebooks do. `__run` deletes its own name, so that no cell sees it.
CELL = """
def __run(__source):
    import ast, sys
    tree = ast.parse(__source, "cell")
    last = ast.Expression(tree.body.pop().value) if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    scope = sys.modules["__main__"].__dict__
    scope.pop("__run", None)
    exec(compile(tree, "cell", "exec"), scope)
    if last is not None:
        value = eval(compile(last, "cell", "eval"), scope)
        if value is not None:
            scope["_"] = value
            print(repr(value))
__run({source})
"""


class CodeNotebook(Environment):
    """A Python session that keeps its state, in a sandbox without network. Not isolated: cells share files, variables.

    Task parameters: `files`, texts by path below /work. A checkpoint is the list of cells: restoring runs the cells
    again and compares what they print. So a notebook that uses random numbers or a clock cannot be restored, nor can a
    notebook in which a cell ran out of time. The reward judges the submission: an answer, or code for hidden tests.
    """

    sandbox = SandboxSpec(memory_mib=512, processes=32, disk_mib=64, preload=("json", "csv", "statistics"))
    reward = "answer_match"
    task_set = "code/tables-v1"
    _cells: list[tuple[str, str]]  # each cell's code and output
    _files: dict[str, str]
    _bench: Workbench
    _session: int
    _lost: bool

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Begin a task. Raises: TaskError for invalid `files`."""
        self._open(task)
        return [Message("system", SYSTEM), *task.opening()]

    @tool(parallel=False)
    async def cell(self, code: str) -> str:
        """Run a cell and show what it prints, and the value of its last expression."""
        try:
            printed = await self._run(code)
        except ToolError as error:  # the cell ended the session, so its variables are gone
            self._cells, self._lost = [*self._cells, (code, str(error))], True
            raise ToolError(f"{error}\nThe notebook was restarted: its variables are gone.") from error
        self._cells = [*self._cells, (code, printed)]
        return printed

    @tool(parallel=False)
    async def restart(self) -> str:
        """Forget all variables. The files stay."""
        self._restart()
        self._cells = [*self._cells, (RESTARTED, "")]
        return "Restarted."

    @tool(final=True, inline=True)
    def submit(self, text: str) -> str:
        """Hand in the answer, or the code that was asked for."""
        return "Submitted."

    async def state_key(self) -> str | None:
        """Hash of the task's files, and of all cells in order with their output: they determine the variables."""
        text = json.dumps([self._files, self._cells], sort_keys=True)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]

    async def checkpoint(self) -> Checkpoint | None:
        """Return the cells; None once a cell was stopped, because running it again may give another result."""
        return None if self._lost else Checkpoint({"cells": [list(pair) for pair in self._cells]})

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        """Continue from a checkpoint. Raises: SandboxError if a cell now prints something else."""
        self._open(task)
        for code, printed in checkpoint.data["cells"]:
            if code == RESTARTED:
                self._restart()
            elif (printed_now := await self._run(code)) != printed:
                raise SandboxError(
                    f"A cell cannot be repeated: {code[:80]!r} printed {printed[:80]!r}, now {printed_now[:80]!r}"
                )
            self._cells = [*self._cells, (code, printed)]

    async def _run(self, code: str) -> str:
        """Run a cell in the session. Raises: ToolError if it was stopped."""
        result = await self._bench.python(CELL.replace("{source}", ascii(code)), session=f"cells {self._session}")
        if result.exit_code < 0 and not (result.timed_out or result.oom_killed):
            raise ToolError(f"The session was ended by signal {-result.exit_code}.")
        return report(result, RUN_S)

    def _restart(self) -> None:
        self._session += 1

    def _open(self, task: Task) -> None:
        self._files = files_of(task)
        self._bench = Workbench(self, self._files)
        self._cells = []
        self._session, self._lost = 0, False
