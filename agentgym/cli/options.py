"""Options that several commands share: which tasks, and every option of a RolloutConfig, each spelt once."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from agentgym.errors import AgentGymError, TaskError
from agentgym.task import SPLITS, Task, TaskSet

if TYPE_CHECKING:
    from agentgym.registry import Kind
    from agentgym.rollout import RolloutConfig


def known_name(kind: Kind) -> Callable[[str | None], str | None]:
    """An option's callback that refuses a name nothing is registered under, also where it would not be used."""

    def check(name: str | None) -> str | None:
        from agentgym import registry

        if name is not None and name not in registry.names(kind):
            registry.load(kind, name)
        return name

    return check


PANEL = "How episodes are played"
"""The part of a command's help that lists the options of `rollout_config`."""


class TasksArgumentError(AgentGymError, ValueError):
    """The tasks were given twice or not at all."""


TasksArgument = Annotated[
    str | None,
    typer.Argument(metavar="TASKS", help="SET or SET:SPLIT; SET is a registered task set or a .jsonl file."),
]
TasksOption = Annotated[
    str | None, typer.Option("--tasks", metavar="SET[:SPLIT]", help="The same as the argument TASKS.")
]
Limit = Annotated[int | None, typer.Option(min=1, help="Play only this many tasks; the same ones every time.")]
GroupSize = Annotated[int, typer.Option(min=1, help="Episodes of each task.", rich_help_panel=PANEL)]
Temperature = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        help="Sampling temperature; 0 takes the likeliest token. Default 1; eval with one episode of each task: 0.",
        rich_help_panel=PANEL,
    ),
]
MaxTurns = Annotated[int, typer.Option(min=1, help="Turns after which an episode is cut.", rich_help_panel=PANEL)]
MaxTurnTokens = Annotated[int, typer.Option(min=1, help="Tokens of one message of the agent.", rich_help_panel=PANEL)]
Seed = Annotated[int, typer.Option(help="Seed of all randomness.", rich_help_panel=PANEL)]
RewardName = Annotated[
    str | None,
    typer.Option(
        "--reward",
        callback=known_name("rewards"),
        help="Registered reward; by default the environment's own.",
        rich_help_panel=PANEL,
    ),
]
BackendName = Annotated[
    str | None,
    typer.Option(
        "--backend", callback=known_name("backends"), help="Registered sandbox backend.", rich_help_panel=PANEL
    ),
]


def split_tasks(text: str, default: str) -> tuple[str, str]:
    """Split `sql/store-v1:held_out` into task set and split; a task set alone means the default split."""
    name, _, split = text.rpartition(":")
    plain = split in SPLITS or not set(split) & {"/", "\\", "."}  # `C:\\tasks.jsonl` and `./a:b/c.jsonl` are paths
    return (name, split) if name and plain else (text, default)


def chosen_tasks(argument: str | None, option: str | None, default_split: str) -> tuple[str, str]:
    """The task set and split that were given as the argument TASKS or by --tasks.

    Raises: TasksArgumentError if both or neither was given.
    """
    if argument is not None and option is not None:
        raise TasksArgumentError(f"The tasks were given twice: {argument} and --tasks {option}. Give them once.")
    text = argument if argument is not None else option
    if text is None:
        raise TasksArgumentError(
            "Which tasks? Give a task set, for example sql/store-v1:held_out. `agentgym list task_sets` names them."
        )
    return split_tasks(text, default_split)


def one_task(task_set: TaskSet, split: str, index: int, task_id: str | None) -> Task:
    """The task with this id or, without one, at this place of the split. Raises: TaskError saying which there are."""
    candidates = task_set[split]
    if task_id is not None:
        matching = [task for task in candidates if task.id == task_id]
        if not matching:
            some = ", ".join(task.id for task in candidates[:3])
            raise TaskError(
                f"{task_set.name}:{split} has no task {task_id!r}. It has {len(candidates)}, for example {some}."
            )
        return matching[0]
    if index >= len(candidates):
        raise TaskError(
            f"{task_set.name}:{split} has {len(candidates)} tasks, so --index goes from 0 to {len(candidates) - 1}."
        )
    return candidates[index]


def unhurried_config(
    *, seed: int, reward: str | None, backend: str | None, environment: str | None = None
) -> RolloutConfig:
    """For a player who may think for hours, and may say as often as they like what is no call."""
    from agentgym.rollout import Budgets, RolloutConfig

    return RolloutConfig(
        environment=environment,
        reward=reward,
        backend=backend,
        seed=seed,
        concurrency=1,
        budgets=Budgets(max_turns=10_000, max_calls=10_000, time_s=24 * 3600.0, max_void_turns=10_000, infra_retries=0),
    )


def rollout_config(
    group_size: GroupSize = 1,
    temperature: Temperature = None,
    top_p: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Nucleus sampling: keep this mass.", rich_help_panel=PANEL)
    ] = 1.0,
    attempts: Annotated[
        int,
        typer.Option(
            min=1, help="Attempts at the task in one episode, each in a fresh environment.", rich_help_panel=PANEL
        ),
    ] = 1,
    feedback: Annotated[
        Literal["verdict", "text", "none"],
        typer.Option(help="What the agent is told between two attempts.", rich_help_panel=PANEL),
    ] = "verdict",
    max_turns: MaxTurns = 16,
    max_turn_tokens: MaxTurnTokens = 512,
    max_episode_tokens: Annotated[
        int | None,
        typer.Option(min=1, help="Tokens of an episode after the prompt; unlimited by default.", rich_help_panel=PANEL),
    ] = None,
    max_calls: Annotated[int, typer.Option(min=1, help="Tool calls of an episode.", rich_help_panel=PANEL)] = 64,
    max_void_turns: Annotated[
        int,
        typer.Option(min=1, help="Turns in a row with neither a call nor an answer.", rich_help_panel=PANEL),
    ] = 3,
    time_s: Annotated[float, typer.Option(help="Seconds of an episode.", rich_help_panel=PANEL)] = 600.0,
    infra_retries: Annotated[
        int, typer.Option(min=0, help="Retries after the infrastructure failed.", rich_help_panel=PANEL)
    ] = 1,
    instruction: Annotated[
        str, typer.Option(help="Precedes every task, as a system message.", rich_help_panel=PANEL)
    ] = "",
    knowledge: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Show each episode what training has taught of its goal: a knowledge.json, which is only read.",
            rich_help_panel=PANEL,
        ),
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Episodes at once.", rich_help_panel=PANEL)] = 64,
    seed: Seed = 0,
    reward: RewardName = None,
    backend: BackendName = None,
    environment: Annotated[
        str | None,
        typer.Option(
            metavar="ID|URL",
            callback=known_name("environments"),
            help="Instead of the one that each task names: another id, or one on an environment server, as "
            "http://HOST:8650/agentgym/sql-v1; http://HOST:8650/ stands for each task's own there.",
            rich_help_panel=PANEL,
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            callback=known_name("engines"),
            help="Where episodes are played: local, or ray for the nodes of a cluster.",
            rich_help_panel=PANEL,
        ),
    ] = None,
    program: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND",
            help="A program that plays each episode instead of our own loop: it asks the policy over HTTP. "
            "{task} in it stands for the task.",
            rich_help_panel=PANEL,
        ),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Of the cluster; by default that of this host.", rich_help_panel=PANEL),
    ] = None,
    nodes: Annotated[
        int | None, typer.Option(min=1, help="How many the cluster must have at least.", rich_help_panel=PANEL)
    ] = None,
    state_keys: Annotated[
        bool, typer.Option(help="Record the environment's state before each turn.", rich_help_panel=PANEL)
    ] = True,
    max_failures_in_a_row: Annotated[
        int, typer.Option(min=1, help="Failed episodes in a row that end the run.", rich_help_panel=PANEL)
    ] = 100,
    stall_warning_s: Annotated[
        float, typer.Option(help="Seconds without progress before a warning.", rich_help_panel=PANEL)
    ] = 300.0,
) -> RolloutConfig:
    """The RolloutConfig that these options describe."""
    from agentgym.knowledge import KnowledgeStore
    from agentgym.registry import load
    from agentgym.rollout import Budgets, RolloutConfig
    from agentgym.rollout.engine import engine_of

    budgets = Budgets(
        max_turns=max_turns,
        max_turn_tokens=max_turn_tokens,
        max_episode_tokens=max_episode_tokens,
        max_calls=max_calls,
        time_s=time_s,
        max_void_turns=max_void_turns,
        infra_retries=infra_retries,
    )
    return RolloutConfig(
        group_size=group_size,
        temperature=temperature,
        top_p=top_p,
        budgets=budgets,
        instruction=instruction,
        knowledge=None if knowledge is None else KnowledgeStore.load(knowledge),
        attempts=load("episode_hooks", "attempts")(n=attempts, feedback=feedback) if attempts > 1 else None,
        concurrency=concurrency,
        seed=seed,
        reward=reward,
        backend=backend,
        environment=environment,
        engine=engine_of(engine, address=address, nodes=nodes, program=shlex.split(program or "")),
        state_keys=state_keys,
        max_failures_in_a_row=max_failures_in_a_row,
        stall_warning_s=stall_warning_s,
    )


def takes_rollout_config(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of `rollout_config`; it receives them as its argument `config`."""
    shared, own = _parameters(rollout_config), _parameters(command)
    del own["config"]

    @wraps(command)
    def with_options(**values: Any) -> None:
        config = rollout_config(**{name: values.pop(name) for name in shared})
        command(config=config, **values)

    parameters = [p.replace(kind=p.KEYWORD_ONLY) for p in (*own.values(), *shared.values())]
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {p.name: p.annotation for p in parameters}
    return with_options


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    for name in ("config", "return"):  # RolloutConfig is imported for type checkers alone: the others must resolve
        function.__annotations__.pop(name, None)
    return dict(inspect.signature(function, eval_str=True).parameters)
