"""Keys of recipe data before it is checked: overrides from the command line, and keys of earlier versions."""

from __future__ import annotations

import copy
import tomllib
from typing import Any

from agentgym.deprecation import renamed_keys, warn_removed, warn_renamed
from agentgym.errors import RecipeError

RENAMED_KEYS: dict[str, dict[str, str]] = {
    "episode": {"max_tokens": "max_episode_tokens", "turn_tokens": "max_turn_tokens"},
    "warm_start": {"novice": "imperfect_oracle"},
    "train": {"loss_type": "objective"},
    "train.signals": {"trunks": "root_episodes"},
    "evaluate": {"samples": "group_size"},
}
"""By section: keys of earlier versions, which still work and warn, and their present names."""

REMOVED_KEYS: dict[str, dict[str, str]] = {
    "train": {"minibatches": "train.microbatch_tokens bounds the memory of a step"}
}
"""By section: keys of earlier versions that do nothing any more but warn, and why nobody needs them."""


def override_key(data: dict[str, Any], text: str) -> None:
    """Apply `a.b=value` to recipe data; a value that is not valid TOML is taken as plain text. Raises: RecipeError."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise RecipeError(f"--set {text!r}: write key=value, for example train.steps=10.")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    *path, last = key.strip().split(".")
    section = data
    for part in path:
        section = section.setdefault(part, {})
        if not isinstance(section, dict):
            raise RecipeError(f"--set {text!r}: {part!r} is a value, not a section.")
    section_name = ".".join(path)
    if last in (renames := RENAMED_KEYS.get(section_name, {})):
        warn_renamed(f"{last} in [{section_name}]", renames[last], stacklevel=2)
    section[renames.get(last, last)] = parsed


def with_current_keys(data: dict[str, Any], where: str) -> dict[str, Any]:
    """A copy of recipe data in which renamed keys have their present names, without removed ones. Each old key warns.

    Raises: RecipeError if a section has a key under both its names.
    """
    current = copy.deepcopy(data)
    for path, renames in RENAMED_KEYS.items():
        *parents, last = path.split(".")
        section: Any = current
        for name in parents:
            section = section.get(name) if isinstance(section, dict) else None
        if not isinstance(section, dict) or not isinstance(section.get(last), dict):
            continue
        try:
            section[last] = renamed_keys(section[last], renames, where=f"[{path}]", stacklevel=3)
        except ValueError as error:
            raise RecipeError(f"{where}: {error}") from error
    _name_the_curriculum_as_sampler(current, where)
    for path, removed in REMOVED_KEYS.items():
        section = current.get(path)
        for key in (removed.keys() & section.keys()) if isinstance(section, dict) else ():
            warn_removed(f"{key} in [{path}]", removed[key], stacklevel=2)
            del section[key]
    return current


def _name_the_curriculum_as_sampler(data: dict[str, Any], where: str) -> None:
    """Write the table [train.curriculum] of earlier versions as `train.sampler`, and warn."""
    train = data.get("train")
    if not isinstance(train, dict) or not isinstance(options := train.get("curriculum"), dict):
        return
    if "sampler" in train:
        raise RecipeError(f"{where}: [train] has both curriculum and sampler. Leave curriculum out.")
    del train["curriculum"]
    train["sampler"] = f"curriculum({', '.join(f'{key}={value!r}' for key, value in options.items())})"
    warn_renamed("[train.curriculum]", f"train.sampler = {train['sampler']!r}", stacklevel=3)
