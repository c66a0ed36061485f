"""Where an agent program works: a sandbox of the environment, and a folder in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agentgym.sandbox import Sandbox


@dataclass(frozen=True, slots=True)
class Workspace:
    """The sandbox in which an agent program works beside the task's files.

    Attributes:
        sandbox: it holds the task's files; the environment's own tools use it too.
        folder: the folder in which the program starts.
        hand_in: the name of the tool that hands the files in. It is called, without arguments, once the program has
            ended; "" for an environment that is judged without one.
        variables: environment variables of the program, in addition to the sandbox's.
        path: folders in which the program's commands are looked up first.
    """

    sandbox: Sandbox
    folder: str = "/work"
    hand_in: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    path: tuple[str, ...] = ()
