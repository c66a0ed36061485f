"""How commands play episodes: every field of a RolloutConfig as an option, and where the episodes are played."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import typer

from agentgym.cli.name_values import options_for
from agentgym.errors import RecipeError
from agentgym.options import Registered
from agentgym.registry import load
from agentgym.rollout.config import RolloutConfig
from agentgym.rollout.engine import engine_of
from agentgym.training.recipe.episode_section import AttemptsSection
from agentgym.training.recipe.hardware_section import HardwareSection


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutOptions:
    """How episodes are played: a RolloutConfig, and options for those of its fields that have no text form."""

    panel: ClassVar[str] = "How episodes are played"
    documented_by: ClassVar[tuple[type, ...]] = (AttemptsSection, HardwareSection)

    config: RolloutConfig = field(default_factory=RolloutConfig)
    environment_option: Annotated[list[str] | None, typer.Option("--environment-option", metavar="NAME=VALUE")] = None
    """An option of the environment's constructor, e.g. screenshots=true or query_s=2. Repeatable."""
    attempts: Annotated[int, typer.Option(min=1)] = 1
    """The maximum number of attempts at the task in an episode, each in a fresh environment."""
    feedback: Literal["verdict", "text", "none"] = "verdict"
    knowledge: Annotated[Path | None, typer.Option(metavar="FILE")] = None
    """A knowledge.json: show each episode what training has learnt about its goal. The file is only read."""
    engine: Annotated[str | None, Registered("engines")] = None
    program: Annotated[str | None, typer.Option(metavar="COMMAND")] = None
    """A program that plays each episode instead of our own loop. It asks the policy over HTTP; {task} in it stands for
    the task."""
    program_where: Annotated[Literal["host", "sandbox"], typer.Option("--program-where")] = "host"
    """Where the program runs: on this host with your own rights, or in the sandbox of its episode."""
    program_package: Annotated[str | None, typer.Option("--program-package", metavar="NAME")] = None
    """The installed package whose commands the sandbox has, e.g. npm:@openai/codex (`agentgym sandbox program`)."""
    program_file: Annotated[list[str] | None, typer.Option("--program-file", metavar="FILE")] = None
    """A file that is copied into the program's home in the sandbox, {home} in the command. Repeatable."""
    address: Annotated[str | None, typer.Option(metavar="HOST:PORT")] = None
    nodes: Annotated[int | None, typer.Option(min=1)] = None
    wait_for_nodes_s: Annotated[float | None, typer.Option("--wait-for-nodes", metavar="SECONDS", min=0)] = None

    def make_config(self) -> RolloutConfig:
        """Make the RolloutConfig.

        Raises: NameValueError; RecipeError for an engine that does not fit; KnowledgeError.
        """
        attempts = None
        if self.attempts > 1:
            attempts = load("episode_hooks", "attempts")(n=self.attempts, feedback=self.feedback)
        pairs = self.environment_option or ()
        options = options_for(_any, pairs, "--environment-option", "the environment")
        return replace(
            self.config,
            environment_options=options,
            knowledge=None if self.knowledge is None else load("gatherers", "knowledge").read(self.knowledge),
            attempts=attempts,
            engine=engine_of(
                self.engine,
                address=self.address,
                nodes=self.nodes,
                wait_for_nodes_s=self.wait_for_nodes_s,
                program=self._program(),
            ),
        )

    def _program(self) -> dict[str, Any] | None:
        """Return the arguments of AgentProgram. Raises: RecipeError for options of a program without its command."""
        options = {
            "where": self.program_where,
            "package": self.program_package or "",
            "files": self.program_file or [],
        }
        if self.program:
            return {"command": shlex.split(self.program), **options}
        if self.program_where != "host" or self.program_package or self.program_file:
            raise RecipeError("An option of a program needs --program with the program's command.")
        return None


def _any(**options: Any) -> None:
    """Accept every option: the tasks' environments check the options once they are known."""
