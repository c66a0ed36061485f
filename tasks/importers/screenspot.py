"""Read a ScreenSpot file (also v2 and Pro) and its screenshots, from files that the user has."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from agentgym import Split, Task, TaskError, TaskSet

MAX_ITEMS = 100_000


def load_screenspot(
    path: str | Path, *, images: str | Path | None = None, corners: bool | None = None, split: Split = "held_out"
) -> TaskSet:
    """The instructions of a ScreenSpot file as tasks of `agentgym/ground-v1`, held out by default.

    Args:
        path: a JSON array of objects with `img_filename`, `instruction` and `bbox`.
        images: the folder of the screenshots; by default `images` next to the file, or else the file's own folder.
        corners: whether a bbox is [left, top, right, bottom], as in ScreenSpot-Pro, or [left, top, width, height], as
            in ScreenSpot and v2. By default as in Pro if the items have `img_size`.
        split: the split of the tasks. A public set is for measuring: train on it only if you never report it.
    Raises: TaskError naming the file, the item and its fault.
    Source: Cheng et al. 2024, arXiv:2401.10935; Pro: Li et al. 2025, arXiv:2504.07981.
    """
    path = Path(path)
    items = _items(path)
    folder = Path(images) if images is not None else path.parent / "images"
    if images is None and not folder.is_dir():
        folder = path.parent
    digests: dict[str, str] = {}
    tasks = [
        _task(item, f"{path}, item {index}", index, folder, digests, corners, split) for index, item in enumerate(items)
    ]
    return TaskSet(f"gui/{path.stem}-v1", {split: tasks})


def _items(path: Path) -> list[Any]:
    try:
        items = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise TaskError(f"Cannot read {path}: {error.strerror}. Give the path of a ScreenSpot file.") from error
    except (ValueError, RecursionError) as error:
        raise TaskError(f"{path} is not JSON: {error}.") from error
    if not isinstance(items, list) or not items or len(items) > MAX_ITEMS:
        raise TaskError(f"{path} must contain an array of 1 to {MAX_ITEMS} items.")
    return items


def _task(
    item: Any, where: str, index: int, folder: Path, digests: dict[str, str], corners: bool | None, split: Split
) -> Task:
    if not isinstance(item, dict) or not all(isinstance(item.get(key), str) for key in ("img_filename", "instruction")):
        raise TaskError(f"{where} has no texts img_filename and instruction.")
    name = item["img_filename"]
    file = (folder / name).resolve()
    if not file.is_relative_to(folder.resolve()):
        raise TaskError(f"{where}: img_filename {name!r} leads out of the folder {folder}.")
    if name not in digests:
        try:
            digests[name] = hashlib.sha256(file.read_bytes()).hexdigest()
        except OSError as error:
            raise TaskError(
                f"{where}: the screenshot {file} cannot be read: {error.strerror}. Give the folder of the images as "
                "images=."
            ) from error
    kinds = [str(item[key]) for key in ("data_type", "ui_type", "data_source", "platform", "group") if item.get(key)]
    return Task(
        id=f"{item.get('id', index)}" if isinstance(item.get("id"), (str, int)) else str(index),
        environment="agentgym/ground-v1",
        prompt=f"Point at what this is about: {item['instruction'].strip()}",
        parameters={"screen": {"path": str(file), "sha256": digests[name]}, "shown": 1024},
        truth={"box": _box(item, where, corners)},
        split=split,
        tags=tuple(dict.fromkeys(kinds)),
    )


def _box(item: dict[str, Any], where: str, corners: bool | None) -> list[float]:
    box = item.get("bbox")
    numbers = isinstance(box, list) and len(box) == 4 and all(type(side) in (int, float) for side in box)
    if not numbers:
        raise TaskError(f"{where}: bbox must be four numbers, not {box!r}.")
    left, top, third, fourth = map(float, box)  # type: ignore[arg-type]  # a list of numbers, as checked above
    if not ("img_size" in item if corners is None else corners):
        third, fourth = left + third, top + fourth
    if not (0 <= left < third and 0 <= top < fourth):
        raise TaskError(
            f"{where}: bbox {box!r} has no area. Say by corners=True or corners=False whether it is given by its "
            "corners."
        )
    return [left, top, third, fourth]
