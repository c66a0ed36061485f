"""The options of RolloutConfig on the command line, spelt once for every command that plays episodes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentgym.cli.choosing import BackendName, Concurrency, MaxTurns, MaxTurnTokens, RewardName, Seed

if TYPE_CHECKING:
    from agentgym.rollout import RolloutConfig


def rollout_config(
    group_size: Annotated[int, typer.Option(min=1, help="Episodes of each task.")] = 1,
    temperature: Annotated[
        float | None,
        typer.Option(min=0.0, help="At 0 the likeliest token is taken; default 1, for eval with one episode a task 0."),
    ] = None,
    top_p: Annotated[float, typer.Option(min=0.0, max=1.0, help="Sample from the likeliest tokens only.")] = 1.0,
    max_turns: MaxTurns = 16,
    max_turn_tokens: MaxTurnTokens = 512,
    max_episode_tokens: Annotated[
        int | None, typer.Option(min=1, help="Tokens of an episode after the prompt; no bound by default.")
    ] = None,
    max_calls: Annotated[int, typer.Option(min=1, help="Tool calls of an episode.")] = 64,
    max_void_turns: Annotated[int, typer.Option(min=1, help="Turns in a row without a call or an answer.")] = 3,
    time_s: Annotated[float, typer.Option(help="Seconds of an episode.")] = 600.0,
    infra_retries: Annotated[int, typer.Option(min=0, help="Retries after a failure of the infrastructure.")] = 1,
    concurrency: Concurrency = 64,
    seed: Seed = 0,
    reward: RewardName = None,
    backend: BackendName = None,
) -> RolloutConfig:
    """What the options say."""
    from agentgym.rollout import Budgets, RolloutConfig

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
        concurrency=concurrency,
        seed=seed,
        reward=reward,
        backend=backend,
    )


def takes_rollout_config(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of `rollout_config`; what they say reaches it as its argument `config`."""
    shared, own = _parameters(rollout_config), _parameters(command)
    del own["config"]

    @wraps(command)
    def with_options(**given: Any) -> None:
        config = rollout_config(**{name: given.pop(name) for name in shared})
        command(config=config, **given)

    parameters = [p.replace(kind=p.KEYWORD_ONLY) for p in (*own.values(), *shared.values())]
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {p.name: p.annotation for p in parameters}
    return with_options


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    for name in ("config", "return"):  # RolloutConfig is imported for type checkers alone: the others must resolve
        function.__annotations__.pop(name, None)
    return dict(inspect.signature(function, eval_str=True).parameters)


def asked_of(config: RolloutConfig) -> dict[str, Any]:
    """What a folder notes of a config, so that it is resumed with the same; budgets that are not named are default.

    The names are those that folders of earlier versions hold.
    """
    from agentgym.rollout import Budgets

    noted = {
        "seed": config.seed,
        "temperature": config.temperature,
        "max_turns": config.budgets.max_turns,
        "max_tokens": config.budgets.max_turn_tokens,
        "reward": config.reward,
    }
    default = Budgets()
    for name in ("max_episode_tokens", "max_calls", "time_s", "max_void_turns"):
        if (value := getattr(config.budgets, name)) != getattr(default, name):
            noted[name] = value
    return noted | ({"top_p": config.top_p} if config.top_p != 1.0 else {})
