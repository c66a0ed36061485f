"""One small environment, written for seven frameworks: lines of code and what a step costs, side by side in one run.

    make bench-peers                      # once: the other frameworks, each in an environment of its own
    python benchmarks/warehouse.py [--episodes 200] [--rounds 3] [--peers .venv-peers]

It is a warehouse of four shelves with the tools `look`, `move` and `finish`; benchmarks/peers/warehouses/ has a file
for each framework, as a user would write it. It answers invented tools and shelves and wrong arguments with a text. A
step is one call of a tool, without a model. Every row must give the same texts for the same seed. NeMo Gym is not on
the package index.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from figures import show_table
from peering import Peer
from rich.table import Table

PEERS = (
    Peer("plain Python", "warehouse_steps"),
    Peer("agentgym", "warehouse_steps"),
    Peer("Gymnasium", "warehouse_steps"),
    Peer("GEM", "warehouse_steps", package="gem-llm==0.1.0"),
    Peer("SkyRL-Gym", "warehouse_steps", package="skyrl-gym==0.4.0"),
    Peer("verifiers", "warehouse_steps", package="verifiers==0.1.14"),
    Peer("OpenEnv, without its server", "warehouse_steps", package="openenv==0.10.0"),
)
WAREHOUSES = ("bare", "agentgym", "gymnasium", "gem", "skyrl", "verifiers", "openenv")


def measure(venvs: Path, episodes: int, rounds: int) -> dict[str, dict[str, Any] | str]:
    """By the peer's name: its version, lines, texts and seconds of a step, or why there are none."""
    return {
        peer.name: peer.run(venvs, warehouse, f"--episodes={episodes}", f"--rounds={rounds}")
        for peer, warehouse in zip(PEERS, WAREHOUSES, strict=True)
    }


def table_of(results: dict[str, dict[str, Any] | str]) -> Table:
    """Return each row beside plain Python. Raises: RuntimeError if a warehouse gave other texts than the first."""
    table = Table("", "lines", "µs / step", "x plain Python", title="one environment in seven frameworks")
    bare = results[PEERS[0].name]
    if isinstance(bare, str):
        raise RuntimeError(f"plain Python did not run: {bare}")
    for name, result in results.items():
        if isinstance(result, str):
            table.add_row(name, "", f"[dim]{result}")
            continue
        if result["texts"] != bare["texts"]:
            raise RuntimeError(f"{name} differs: {result['texts']}, and not {bare['texts']}.")
        step_s, ratio = result["step_s"], result["step_s"] / bare["step_s"]
        table.add_row(f"{name} {result['version']}", str(result["lines"]), f"{step_s * 1e6:,.1f}", f"{ratio:,.1f}")
    return table


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", type=Path, default=Path(".venv-peers"))
    options = parser.parse_args()
    show_table(table_of(measure(options.peers, options.episodes, options.rounds)))
