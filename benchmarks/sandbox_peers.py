"""agentgym and what a user would take instead, side by side: the same work by drivers in benchmarks/peers/.

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
class Found:
    """What one peer's runs gave: milliseconds by work, or why there are none."""

    times: dict[str, list[float]] = field(default_factory=lambda: {work: [] for work in WORKS})
    version: str = ""
    reason: str = ""


def measure(venvs: Path, rounds: int, repeats: int) -> dict[str, Found]:
    """Run every driver `rounds` times in turn. Returns: by the peer's name."""
    found = {peer.name: Found() for peer in PEERS}
    for _ in range(rounds):
        for peer in PEERS:
            if not found[peer.name].reason:
                _add(found[peer.name], peer, venvs, repeats)
    return found


def _add(found: Found, peer: Peer, venvs: Path, repeats: int) -> None:
    said = peer.run(venvs, f"--repeats={repeats}")
    if isinstance(said, str):
        found.reason = said
        return
    found.version = said["version"]
    for work, values in said["times"].items():
        found.times[work] += values


def table_of(found: dict[str, Found]) -> Table:
    """Medians, and how many times as long as the first row each takes."""
    ours = {work: median(values) for work, values in found[PEERS[0].name].times.items() if values}
    table = Table("", "isolation", *(f"{what}, ms" for what in WORKS.values()), title="the same work, side by side")
    for peer in PEERS:
        one = found[peer.name]
        if one.reason:
            table.add_row(peer.name, peer.isolation, f"[dim]{one.reason}")
            continue
        cells = []
        for work, values in one.times.items():
            ratio = f" ({median(values) / ours[work]:.1f} x)" if work in ours and peer is not PEERS[0] else ""
            cells.append(f"{median(values):.1f}{ratio}")
        table.add_row(f"{peer.name} {one.version}", peer.isolation, *cells)
    return table


def markdown(found: dict[str, Found]) -> str:
    """The same for docs/benchmarks.md; empty if nothing was measured."""
    lines = [f"| | isolation | {', ms | '.join(WORKS.values())}, ms |", "|---|---|" + "---|" * len(WORKS)]
    for peer in PEERS if found else ():
        one = found[peer.name]
        cells = (
            [one.reason, *[""] * (len(WORKS) - 1)] if one.reason else [f"{median(v):.1f}" for v in one.times.values()]
        )
        lines.append(f"| {peer.name} {one.version} | {peer.isolation} | {' | '.join(cells)} |")
    return "\n".join(lines) if found else ""


def as_data(found: dict[str, Found]) -> dict[str, object]:
    """For the JSON file: medians by peer and work, with versions and reasons."""
    return {
        name: {
            "version": one.version,
            "reason": one.reason,
            "ms": {work: median(values) for work, values in one.times.items() if values},
        }
        for name, one in found.items()
    }
