"""`agentgym view`: look at runs in a browser."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from agentgym.cli.console import out
from agentgym.text import counted


def view(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[RUNS]...", help="Run folders, or folders with runs in them; by default runs/."),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to listen; 0 takes any free one.")] = 8642,
    browser: Annotated[bool, typer.Option("--open/--no-open", help="Open a browser on it.")] = True,
) -> None:
    """Show runs in a browser: curves, episodes turn by turn with their credit, tokens, two episodes side by side.

    It reads while a run is writing, and serves this machine alone. From elsewhere: ssh -L 8642:localhost:8642 HOST.

    Example: agentgym view runs
    """
    import webbrowser

    from agentgym.viewer.serving import ADDRESS, check_installed, listen, serve
    from agentgym.viewer.shelf import named_runs

    check_installed()
    paths = runs or [Path("runs")]
    runs_by_key = named_runs(paths)
    listening = listen(port)
    address = f"http://{ADDRESS}:{listening.getsockname()[1]}/"
    out().print(
        f"{counted(len(runs_by_key), 'run')}. Open {address} in a browser; Ctrl-C ends this.",
        markup=False,
        soft_wrap=True,
    )
    if browser:
        webbrowser.open(address)
    with suppress(KeyboardInterrupt):  # the usual way to end it
        serve(paths, listening)
