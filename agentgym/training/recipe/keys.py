"""Finds a recipe's file, and applies overrides and renames old keys in its data before the data is checked."""

from __future__ import annotations

import copy
import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from agentgym.deprecation import warn_renamed
from agentgym.errors import RecipeError

RENAMED_KEYS: dict[str, str] = {
    "train.adapt": "train.parts.adapt",
    "train.corrections": "train.parts.corrections",
    "train.reference.episodes": "train.parts.optimal_values.episodes",
    "train.reference.temperature": "train.parts.optimal_values.temperature",
    "train.learning_rate": "train.optimiser.learning_rate",
    "train.snr_learning_rate": "train.parts.snr_learning_rate",
    "train.optimiser.snr_learning_rate": "train.parts.snr_learning_rate",
    "train.warmup_steps": "train.optimiser.warmup_steps",
    "train.max_grad_norm": "train.optimiser.max_grad_norm",
    "train.audit": "train.parts.credit_audit",
    "train.audit.every": "train.parts.credit_audit.every",
    "train.audit.sample": "train.parts.credit_audit.sample",
    "train.audit.continuations": "train.parts.credit_audit.continuations",
    "train.audit_every": "train.parts.credit_audit.every",
    "train.audit_sample": "train.parts.credit_audit.sample",
    "train.audit_continuations": "train.parts.credit_audit.continuations",
    "train.trainable_roles": "train.roles.trainable",
    "train.role_order": "train.parts.role_order.roles",
    "train.roles.order": "train.parts.role_order.roles",
    "train.rotate_roles_every": "train.parts.role_rotation.every",
    "train.roles.rotate_every": "train.parts.role_rotation.every",
    "train.teacher": "train.parts.teacher",
}
"""Old keys and their current names, both with their sections.

An old key works and warns until the release that agentgym.deprecation names.
"""
_FORMER_DEFAULTS: dict[str, Any] = {
    "train.audit": {"every": 0, "sample": 8, "continuations": 4},
    "train.audit_every": 0,
    "train.audit_sample": 8,
    "train.audit_continuations": 4,
    "train.reference.episodes": 8,
    "train.reference.temperature": 0.5,
    "train.role_order": [],
    "train.roles.order": [],
    "train.rotate_roles_every": 0,
    "train.roles.rotate_every": 0,
}
"""Keys that are now options of a training part, with their former defaults.

A recorded recipe with such a default does not use the part.
"""


def override_key(data: dict[str, Any], text: str) -> None:
    """Apply `a.b=value` to recipe data; a value that is not valid TOML is plain text. Raises: RecipeError."""
    key, equals, value = text.partition("=")
    if not equals or not (key := key.strip()):
        raise RecipeError(f"--set {text!r} cannot be read: write key=value, for example --set train.steps=10.")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    if key in RENAMED_KEYS:
        warn_renamed(key, RENAMED_KEYS[key], stacklevel=2)
    _write(data, RENAMED_KEYS.get(key, key), parsed, where=f"--set {text!r}")


def with_current_keys(data: dict[str, Any], where: str) -> dict[str, Any]:
    """Return a copy of recipe data with old keys renamed. Each old key warns.

    Raises: RecipeError if a key is present under both names.
    """
    current = copy.deepcopy(data)
    for old, new in RENAMED_KEYS.items():
        section, name = _section_with(current, old)
        if name not in section:
            continue
        if old in _FORMER_DEFAULTS and section[name] == _FORMER_DEFAULTS[old]:
            del section[name]
            continue
        new_section, new_name = _section_with(current, new)
        if new_name in new_section:
            raise RecipeError(
                f"{where} has both {old} and {new}, which are the old and the new name of one key. Leave {old} out."
            )
        warn_renamed(old, new, stacklevel=2)
        _write(current, new, section.pop(name), where)
    return current


def _section_with(data: dict[str, Any], key: str) -> tuple[dict[str, Any], str]:
    """Return the section of a dotted key, empty if missing, and the key's last name."""
    *path, last = key.split(".")
    section: Any = data
    for part in path:
        section = section.get(part) if isinstance(section, dict) else None
    return (section if isinstance(section, dict) else {}), last


def _write(data: dict[str, Any], key: str, value: Any, where: str) -> None:
    """Set a dotted key, creating missing sections. Raises: RecipeError if a section of the path is a value."""
    *path, last = key.split(".")
    section = data
    for part in path:
        section = section.setdefault(part, {})
        if not isinstance(section, dict):
            raise RecipeError(
                f"{where}: {part!r} is a value, not a section, so it has no keys below it. Set {part!r} itself, or "
                "name a section."
            )
    section[last] = value


def recipe_file(recipe: str | Path) -> Path:
    """Return the file of a recipe: the path itself if it exists, else the bundled recipe of this name.

    `quickstart`, `quickstart.toml` and `recipes/quickstart.toml` name the same recipe; `stages/ranking` is in a folder.

    Raises: RecipeError listing the bundled recipes if neither exists.
    """
    path = Path(recipe)
    if path.is_file():
        return path
    bundled = bundled_recipes()
    name = path.with_suffix("").as_posix().removeprefix("recipes/")
    if name in bundled and path.suffix in ("", ".toml"):
        return bundled[name]
    if path.is_dir():
        recorded = path / "recipe.toml"
        hint = f" Did you mean {recorded}?" if recorded.is_file() else " Give the file of a recipe."
        raise RecipeError(f"Cannot read the recipe {path}: it is a folder.{hint}")
    close = get_close_matches(name, bundled, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise RecipeError(
        f"Cannot read the recipe {path}: there is no such file, and no bundled recipe of this name.{hint} "
        f"Bundled: {', '.join(sorted(bundled)) or 'none'}."
    )


def bundled_recipes() -> dict[str, Path]:
    """Return the files of the recipes that agentgym brings, by name."""
    package = Path(__file__).parents[2]
    # the recipes of an installed package, and of a checkout
    for folder in (package / "recipes", package.parent / "recipes"):
        if folder.is_dir():
            files = [file for file in sorted(folder.rglob("*.toml")) if file.parent.name != "tasks"]
            return {file.relative_to(folder).with_suffix("").as_posix(): file for file in files}
    return {}
