"""The recipes bundled with agentgym, by name, in a checkout and in an installed package."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from agentgym.errors import RecipeError


def recipe_file(recipe: str | Path) -> Path:
    """Return the file of a recipe: the path itself if it exists, else the bundled recipe of this name.

    `quickstart`, `quickstart.toml` and `recipes/quickstart.toml` name the same recipe; `stages/ranking` is in a folder.

    Raises: RecipeError listing the bundled recipes if there is neither.
    """
    path = Path(recipe)
    if path.is_file():
        return path
    bundled = _bundled()
    name = path.with_suffix("").as_posix().removeprefix("recipes/")
    if name in bundled and path.suffix in ("", ".toml"):
        return bundled[name]
    close = get_close_matches(name, bundled, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise RecipeError(
        f"Cannot read the recipe {path}: there is no such file, and no bundled recipe of this name.{hint} "
        f"Bundled: {', '.join(sorted(bundled)) or 'none'}."
    )


def _bundled() -> dict[str, Path]:
    package = Path(__file__).parents[2]
    for folder in (package / "recipes", package.parent / "recipes"):  # of an installed package, of a checkout
        if folder.is_dir():
            files = [file for file in sorted(folder.rglob("*.toml")) if file.parent.name != "tasks"]
            return {file.relative_to(folder).with_suffix("").as_posix(): file for file in files}
    return {}
