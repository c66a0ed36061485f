"""`agentgym/code-bash-v1`: an interactive shell that keeps its folder, variables, functions and options."""

from __future__ import annotations

from agentgym import Checkpoint, Environment, Message, SandboxSpec, Task, ToolError, Workspace, tool

from .transcript import transcript
from .workbench import RUN_S, Workbench, files_of

SYSTEM = "You work in a shell, in /work. Do what is asked with commands, then call done."

# Each command runs in a separate process, so a checkpoint needs no running process. A trap saves the shell's state,
# even when a command calls exit. Variables that the shell itself manages are not saved.
STATE = "/tmp/.shell"
KEEPER = (
    f"state={STATE}"
    + r"""
__keep() {
    { printf 'cd -- %q 2>/dev/null\n' "$PWD"
      local __name
      for __name in $(compgen -v); do case $__name in
          BASH*|EUID|UID|PPID|SHELLOPTS|FUNCNAME|GROUPS|DIRSTACK|PIPESTATUS|RANDOM|SRANDOM|SECONDS|LINENO|EPOCH*|_|__name|\
          state|HOSTNAME|HOSTTYPE|MACHTYPE|OSTYPE|IFS|OPT*|PS4|SHLVL|COMP_*) ;;
          *) declare -p "$__name" 2>/dev/null ;;
      esac; done
      declare -f; alias -p; shopt -p; set +o
    } > $state 2>/dev/null
}
if [ -f $state ]; then . $state >/dev/null 2>&1; fi
shopt -s expand_aliases
trap __keep EXIT
eval "$1"
"""
)


class CodeBash(Environment):
    """A shell on a few files in a sandbox without network. Not isolated: its commands share files, /tmp included.

    The folder, variables, functions, aliases and options outlive a command; processes do not: a process that still runs
    when its command ends is killed. Task parameters: `files`, texts by path below /work. The task's truth has checks of
    the end state, which the reward `final_files` runs in another sandbox.
    """

    sandbox = SandboxSpec(memory_mib=256, processes=64, disk_mib=64, preload=("json",))
    reward = "final_files"
    task_set = "code/shell-v1"
    _bench: Workbench

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Begin a task. Raises: TaskError for invalid `files`."""
        self._bench = Workbench(self, files_of(task), programs=("bash",))
        return [Message("system", SYSTEM), *task.opening()]

    @tool(parallel=False)
    async def bash(self, command: str) -> str:
        """Run a command in the shell."""
        if "\x00" in command:
            raise ToolError("The command holds a null character.")
        argv = ["bash", "--noprofile", "--norc", "-c", KEEPER, "bash", command]
        return transcript(await self._bench.command(argv), RUN_S, max_chars=4_000)

    @tool(final=True, max_output_chars=1_500_000, parallel=False)
    async def done(self) -> str:
        """Say that the files under /work are as they shall be."""
        return await self._bench.submission()

    async def state_key(self) -> str | None:
        """Hash of all files; the shell's state is in one of them."""
        return await self._bench.state_key()

    async def workspace(self) -> Workspace | None:
        return await self._bench.workspace("done")

    async def checkpoint(self) -> Checkpoint | None:
        return await self._bench.checkpoint()

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        self._bench = Workbench(self, files_of(task), programs=("bash",), checkpoint=checkpoint)
