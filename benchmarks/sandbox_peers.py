"""agentgym and its alternatives, side by side: the same work by drivers in benchmarks/peers/.

Each driver runs in the virtual environment of its package, several times in turn with the others.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from peering import Peer
from rich.table import Table

WORKS = {"life": "create, 2 files, script, read, close", "script": "python3 script.py", "true": "true"}
_NO_ISOLATION = "nothing"
_CONTAINER = "container"


PEERS = (
    Peer("agentgym, namespaces", "agentgym_namespaces", "namespaces + seccomp + cgroup"),
    Peer("agentgym, namespaces, run_python", "agentgym_namespaces", "as above", environment={"PEER_WARM": "1"}),
    Peer("agentgym, docker", "agentgym_namespaces", "hardened container", environment={"PEER_BACKEND": "docker"}),
    Peer("subprocess", "plain_subprocess", _NO_ISOLATION),
    Peer("bubblewrap per call", "bubblewrap", "namespaces"),
    Peer("Docker SDK exec", "docker_sdk", _CONTAINER, "docker"),
    Peer("Inspect local", "inspect_sandbox", _NO_ISOLATION, "inspect-ai"),
    Peer("Inspect docker", "inspect_sandbox", _CONTAINER, "inspect-ai", {"PEER_BACKEND": "docker"}),
    Peer("SWE-ReX local", "swe_rex_local", _NO_ISOLATION, "swe-rex"),
    Peer("llm-sandbox docker", "llm_sandbox_docker", _CONTAINER, "llm-sandbox[docker]"),
)


@dataclass
class PeerFigures:
    """The figures of one peer: milliseconds by kind of work, or the reason why there are none."""

    times: dict[str, list[float]] = field(default_factory=lambda: {work: [] for work in WORKS})
    version: str = ""
    reason: str = ""


def measure(venvs: Path, rounds: int, repeats: int) -> dict[str, PeerFigures]:
    """Run every driver `rounds` times in turn. Returns: by the peer's name."""
    figures = {peer.name: PeerFigures() for peer in PEERS}
    for _ in range(rounds):
        for peer in PEERS:
            if not figures[peer.name].reason:
                _add(figures[peer.name], peer, venvs, repeats)
    return figures


def _add(figures: PeerFigures, peer: Peer, venvs: Path, repeats: int) -> None:
    answer = peer.run(venvs, f"--repeats={repeats}")
    if isinstance(answer, str):
        figures.reason = answer
        return
    figures.version = answer["version"]
    for work, values in answer["times"].items():
        figures.times[work] += values


def table_of(figures: dict[str, PeerFigures]) -> Table:
    """Return a table of medians, and of each median as a multiple of the first row's."""
    ours = {work: median(values) for work, values in figures[PEERS[0].name].times.items() if values}
    table = Table("", "isolation", *(f"{what}, ms" for what in WORKS.values()), title="the same work, side by side")
    for peer in PEERS:
        peer_figures = figures[peer.name]
        if peer_figures.reason:
            table.add_row(peer.name, peer.isolation, f"[dim]{peer_figures.reason}")
            continue
        cells = []
        for work, values in peer_figures.times.items():
            ratio = f" ({median(values) / ours[work]:.1f} x)" if work in ours and peer is not PEERS[0] else ""
            cells.append(f"{median(values):.1f}{ratio}")
        table.add_row(f"{peer.name} {peer_figures.version}", peer.isolation, *cells)
    return table


def markdown(figures: dict[str, PeerFigures]) -> str:
    """Return the table for docs/benchmarks.md; empty if nothing was measured."""
    lines = [f"| | isolation | {', ms | '.join(WORKS.values())}, ms |", "|---|---|" + "---|" * len(WORKS)]
    for peer in PEERS if figures else ():
        peer_figures = figures[peer.name]
        cells = (
            [peer_figures.reason, *[""] * (len(WORKS) - 1)]
            if peer_figures.reason
            else [f"{median(v):.1f}" for v in peer_figures.times.values()]
        )
        lines.append(f"| {peer.name} {peer_figures.version} | {peer.isolation} | {' | '.join(cells)} |")
    return "\n".join(lines) if figures else ""


def as_data(figures: dict[str, PeerFigures]) -> dict[str, object]:
    """Return data for the JSON file: medians by peer and work, with versions and reasons."""
    return {
        name: {
            "version": peer_figures.version,
            "reason": peer_figures.reason,
            "ms": {work: median(values) for work, values in peer_figures.times.items() if values},
        }
        for name, peer_figures in figures.items()
    }
