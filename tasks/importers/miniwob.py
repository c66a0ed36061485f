"""Read MiniWoB++ from a folder with its HTML, as in the package `miniwob`: the tasks of the published split.

Source: Liu et al. 2018, arXiv:1802.08802. The split of 62 and 63 tasks comes from BrowserGym's metadata
(Le Sellier De Chezelles et al. 2024, arXiv:2412.05467).
"""

from __future__ import annotations

from pathlib import Path

from agentgym import Split, Task, TaskError, TaskSet, seed_of

NAME, ENVIRONMENT = "web/miniwob-v1", "agentgym/web-v1"
EPISODES: dict[Split, int] = {"train": 20, "validation": 2, "held_out": 4}
_TRAIN = """
book-flight book-flight-nodelay buy-ticket choose-date choose-date-easy choose-date-medium choose-date-nodelay
circle-center click-checkboxes click-checkboxes-large click-checkboxes-soft click-checkboxes-transfer
click-collapsible click-collapsible-2 click-collapsible-2-nodelay click-collapsible-nodelay click-dialog
click-dialog-2 click-option click-shades click-test-2 click-test-transfer count-shape daily-calendar drag-box
drag-items drag-shapes drag-shapes-2 drag-single-shape drag-sort-numbers draw-circle draw-line enter-date
enter-password enter-text enter-text-2 enter-text-dynamic enter-time find-midpoint focus-text focus-text-2
form-sequence identify-shape login-user login-user-popup multi-layouts multi-orderings navigate-tree odd-or-even
read-table read-table-2 search-engine text-editor text-transform unicode-test use-autocomplete
use-autocomplete-nodelay use-colorwheel use-colorwheel-2 use-slider use-slider-2 visual-addition
"""
_HELD_OUT = """
ascending-numbers bisect-angle choose-list click-button click-button-sequence click-color click-link click-menu
click-menu-2 click-pie click-pie-nodelay click-scroll-list click-shape click-tab click-tab-2 click-tab-2-easy
click-tab-2-hard click-tab-2-medium click-test click-widget copy-paste copy-paste-2 count-sides drag-circle drag-cube
drag-items-grid email-inbox email-inbox-delete email-inbox-forward email-inbox-forward-nl email-inbox-forward-nl-turk
email-inbox-important email-inbox-nl-turk email-inbox-noscroll email-inbox-reply email-inbox-star-reply find-greatest
find-word form-sequence-2 form-sequence-3 generate-number grid-coordinate guess-number highlight-text highlight-text-2
hot-cold number-checkboxes order-food phone-book resize-textarea right-angle scroll-text scroll-text-2 sign-agreement
simple-algebra simple-arithmetic social-media social-media-all social-media-some stock-market terminal tic-tac-toe
use-spinner
"""
TRAIN, HELD_OUT = _TRAIN.split(), _HELD_OUT.split()
UNLISTED = ("button-delay", "chase-circle", "hover-shape", "moving-items", "simon-says")
"""Tasks that are not in the published split. They are not in the set, but can be played by name."""


def load_miniwob(path: str | Path, *, seed: int = 0) -> TaskSet:
    """The tasks of MiniWoB++ in a folder, as tasks of `agentgym/web-v1`: 62 train, 63 held out.

    Validation has the training tasks with other seeds. A task's page states its wish and computes its reward.

    Args:
        path: the package's folder, or its folder `html`.
        seed: chooses the seeds of the episodes.
    Raises: TaskError if the folder does not hold every task of the split.
    """
    folder = next((f for f in (Path(path), Path(path) / "html", Path(path) / "miniwob" / "html") if _holds(f)), None)
    if folder is None:
        raise TaskError(
            f"{path} does not contain MiniWoB++: its folder html should have core/core.js and miniwob/*.html."
        )
    missing = [name for name in (*TRAIN, *HELD_OUT) if not (folder / "miniwob" / f"{name}.html").is_file()]
    if missing:
        raise TaskError(f"{folder} lacks {len(missing)} of the tasks, for example {missing[0]}.html.")

    def tasks(split: Split, names: list[str]) -> list[Task]:
        return [
            Task(
                id=f"{split}/{name}/{index}",
                environment=ENVIRONMENT,
                prompt="Do what the page asks.",
                parameters={
                    "site": "miniwob",
                    "folder": str(folder),
                    "page": name,
                    "seed": seed_of(NAME, split, name, seed, index) % 2**31,
                },
                truth={"page": True},
                split=split,
                tags=(name,),
            )
            for index in range(EPISODES[split])
            for name in names
        ]

    return TaskSet(
        NAME,
        {
            "train": tasks("train", TRAIN),
            "validation": tasks("validation", TRAIN),
            "held_out": tasks("held_out", HELD_OUT),
        },
    )


def _holds(folder: Path) -> bool:
    return (folder / "core" / "core.js").is_file() and (folder / "miniwob").is_dir()
