"""Keywords of agentgym 0.1: EpisodeManager and evaluate() take the options of RolloutConfig one by one until 0.3.0."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any, TypeVar

from agentgym.deprecation import warn_renamed
from agentgym.rollout.budgets import Budgets
from agentgym.rollout.config import RolloutConfig

_OPTIONS = {
    "samples": "group_size",
    "budgets": "budgets",
    "concurrency": "concurrency",
    "seed": "seed",
    "reward": "reward",
    "environment": "environment",
    "environment_options": "environment_options",
    "backend": "backend",
}
_Callable = TypeVar("_Callable", bound=Callable[..., Any])


def takes_old_keywords(function: _Callable) -> _Callable:
    """Decorate what has a `config` parameter, a function or a constructor: old keywords become a RolloutConfig.

    Raises: TypeError, in the decorated function, for old keywords beside a `config`.
    """

    @wraps(function)
    def with_config(*args: Any, **kwargs: Any) -> Any:
        old = {name: kwargs.pop(name) for name in (*_OPTIONS, "sampling") if name in kwargs}
        if old:
            if "config" in kwargs:
                raise TypeError(f"config= was given beside {', '.join(f'{name}=' for name in old)}: put them into it.")
            names = ", ".join(f"{name}=" for name in old)
            warn_renamed(f"{names} of {function.__qualname__}()", "part of config=RolloutConfig(...)")
            kwargs["config"] = _config_of(old)
        return function(*args, **kwargs)

    decorated: Any = with_config
    return decorated  # type: ignore[no-any-return]


def _config_of(old: dict[str, Any]) -> RolloutConfig:
    sampling = old.pop("sampling", None)
    options = {_OPTIONS[name]: value for name, value in old.items() if value is not None}
    config = RolloutConfig(**options)
    if sampling is None:
        return config
    budgets: Budgets = replace(config.budgets, max_turn_tokens=sampling.max_tokens)
    return replace(config, temperature=sampling.temperature, top_p=sampling.top_p, budgets=budgets)
