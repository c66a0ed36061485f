"""What turns, episodes and evaluations took, as words a person can read."""

from __future__ import annotations

from collections.abc import Callable, Mapping

_WORDS: dict[str, Callable[[float], str]] = {
    "prompt_tokens": lambda n: f"{n:,.0f} prompt tokens",
    "completion_tokens": lambda n: f"{n:,.0f} completion tokens",
    "cost": lambda n: f"cost {n:,.4g}",
    "cpu_s": lambda n: f"CPU {_seconds(n)}",
    "wall_s": lambda n: f"wall {_seconds(n)}",
    "peak_memory_mib": lambda n: f"peak {n:,.3g} MiB" if n < 1000 else f"peak {n / 1024:,.1f} GiB",
    "written_bytes": lambda n: f"{_bytes(n)} written",
    "started": lambda n: f"{n:,.0f} process{'es' if n != 1 else ''}",
}
"""What is told, in this order: of the policy, of the tools, of the sandboxes."""


def in_words(usage: Mapping[str, float]) -> list[str]:
    """Phrases such as "CPU 0.3 s", of what is there. Names as in `Turn.usage`."""
    return [say(usage[name]) for name, say in _WORDS.items() if usage.get(name)]


def _seconds(seconds: float) -> str:
    if seconds < 1:
        return f"{1000 * seconds:.3g} ms"
    return f"{seconds:.1f} s" if seconds < 600 else f"{seconds / 3600:.1f} h"


def _bytes(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:,.1f} GiB"
