"""`agentgym/swe-given-v1`: the file with the bug is shown, so that the agent only has to fix it.

The setting of SWE-RL, Wei et al. 2025, arXiv:2502.18449: issue and code in, search and replace edits out.
"""

from __future__ import annotations

from agentgym import Message, Task, TaskError, ToolError, tool

from .environment import SweEdit

GIVEN = "Mend what the issue describes in the code shown, then submit."


class SweGiven(SweEdit):
    """A repository with some files shown, in which the agent replaces pieces of text. Not isolated: as in `SweEdit`.

    Task parameters and judging: as in `SweEdit`, and `shown`, the paths of those files.
    """

    task_set = "swe/one-line-given-v1"

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Fork the prepared repository. Raises: TaskError if there is no repository, or no file to show."""
        _, *opening, last = await super().reset(task, seed=seed)
        if not self._task.shown:
            raise TaskError(f"{task.id} has no parameters['shown']. Give the paths of the files to be mended.")
        try:
            code = [f"{path}:\n{await self._text(path)}" for path in self._task.shown]
        except ToolError as error:
            raise TaskError(f"{task.id}: parameters['shown']: {error}") from error
        return [Message("system", GIVEN), *opening, Message(last.role, "\n\n".join([last.text, *code]))]

    @tool(parallel=False)
    async def edit(self, old: str, new: str) -> str:
        """Replace a piece of the code shown that occurs exactly once."""
        texts = {path: await self._text(path) for path in self._task.shown}
        holders = [path for path, text in texts.items() if old in text]
        if len(holders) > 1:
            raise ToolError(f"`old` occurs in {', '.join(holders)}: give more of the text around it.")
        return await self.replace(holders[0] if holders else self._task.shown[0], old, new)


SweGiven.tools = {name: SweGiven.tools[name] for name in ("edit", "submit")}
