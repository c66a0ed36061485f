"""`agentgym/code-complete-v1`: write the missing lines of a function, piece by piece."""

from __future__ import annotations

import hashlib
import json

from agentgym import Checkpoint, Environment, Message, Task, ToolError, tool

from .workbench import text_of

MAX_PIECE, MAX_PIECES = 2_000, 60


class CodeComplete(Environment):
    """An editor with a gap in a file. In memory: nothing runs here, so nothing needs to be isolated.

    Task parameters: `before` and `after`, the code around the gap. The reward `completion` rewards each piece for
    coming nearer to the original code, and runs the hidden tests on the whole in a sandbox.
    """

    reward = "completion"
    task_set = "code/completion-v1"
    _before: str
    _after: str
    _pieces: list[str]  # the lines written into the gap so far

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Begin a task. Raises: TaskError if the code around the gap is not text."""
        self._before, self._after = text_of(task, "before"), text_of(task, "after")
        self._pieces = []
        words = "Write the missing code, one or a few lines at a time, with their indentation. Then finish."
        return [Message("system", words), *task.opening()]

    @tool(inline=True)
    def write(self, text: str) -> str:
        """Write the next lines."""
        if len(text) > MAX_PIECE or len(self._pieces) >= MAX_PIECES:
            raise ToolError(f"At most {MAX_PIECE} characters at a time, and {MAX_PIECES} pieces.")
        self._pieces.append(text if text.endswith("\n") else text + "\n")
        return self._before + "".join(self._pieces) + self._after

    @tool(inline=True)
    def undo(self) -> str:
        """Take the last piece away."""
        if not self._pieces:
            raise ToolError("Nothing is written yet.")
        self._pieces.pop()
        return self._before + "".join(self._pieces) + self._after

    @tool(final=True, inline=True)
    def finish(self) -> str:
        """Say that the code is complete."""
        if not self._pieces:
            raise ToolError("Nothing is written yet.")
        return "Finished."

    async def state_key(self) -> str | None:
        """Hash of the current code."""
        text = json.dumps([self._before, "".join(self._pieces), self._after])
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]

    async def checkpoint(self) -> Checkpoint | None:
        return Checkpoint({"pieces": list(self._pieces)})

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        await self.reset(task, seed=seed)
        self._pieces = list(checkpoint.data["pieces"])
