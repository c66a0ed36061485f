"""The cost of an episode here and in other frameworks: the same eight tool calls, with a script as the model.

    make bench-peers                      # once: the other frameworks, each in an environment of its own
    python benchmarks/episodes.py [--episodes 100] [--rounds 3] [--peers .venv-peers]

Turns per CPU-second of one process: model, tools, judge and record; the best of the rounds. A framework that is not
installed has no figure.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from figures import show_table
from peering import Peer
from rich.table import Table

PEERS = (
    Peer("agentgym, recorded to disk", "episodes_agentgym", environment={"PEER_LEDGER": "1"}),
    Peer("agentgym, in memory", "episodes_agentgym"),
    Peer("verifiers, in memory", "episodes_verifiers", package="verifiers==0.1.14"),
    Peer("Inspect, recorded to disk", "episodes_inspect", package="inspect-ai"),
)


def measure(venvs: Path, episodes: int, rounds: int) -> dict[str, tuple[str, float] | str]:
    """Return by peer its version and turns per CPU-second, or the reason why there is no figure."""
    results: dict[str, tuple[str, float] | str] = {}
    for peer in PEERS:
        figures = peer.run(venvs, f"--episodes={episodes}", f"--rounds={rounds}")
        results[peer.name] = figures if isinstance(figures, str) else (figures["version"], max(figures["rates"]))
    return results


def table_of(results: dict[str, tuple[str, float] | str]) -> Table:
    """Return a table that compares each peer with the first row."""
    table = Table("", "turns / CPU-s", "the first row is", title="eight tool calls and an answer, side by side")
    first = results[PEERS[0].name]
    for name, result in results.items():
        if isinstance(result, str):
            table.add_row(name, f"[dim]{result}")
        else:
            ratio = "" if isinstance(first, str) or result is first else f"{first[1] / result[1]:.1f} x as fast"
            table.add_row(f"{name} {result[0]}", f"{result[1]:,.0f}", ratio)
    return table


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", type=Path, default=Path(".venv-peers"))
    options = parser.parse_args()
    show_table(table_of(measure(options.peers, options.episodes, options.rounds)))
