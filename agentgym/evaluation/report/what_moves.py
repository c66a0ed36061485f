"""What moved a policy in the last steps of its training, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentgym.credit.reward_parts import MOVED_BY
from agentgym.text import percent

LAST_STEPS = 10


def what_moves(rows: Sequence[Mapping[str, float]]) -> str:
    """Return a sentence such as "success 62 %, form 38 %; success varies in 25 % of groups"; "" without such metrics.

    Args:
        rows: the metrics of a training, by step. The last steps with an advantage are averaged.
    """
    moving = [row for row in rows if any(name.startswith(MOVED_BY) for name in row)][-LAST_STEPS:]
    if not moving:
        return ""
    names = {name for row in moving for name in row if name.startswith(MOVED_BY)}
    means = {name.removeprefix(MOVED_BY): sum(row.get(name, 0.0) for row in moving) / len(moving) for name in names}
    parts = [f"{name} {percent(mean)}" for name, mean in sorted(means.items(), key=lambda item: (-item[1], item[0]))]
    varied = [row["guard/success_varies"] for row in rows[-LAST_STEPS:] if "guard/success_varies" in row]
    groups = f"; success varies in {percent(sum(varied) / len(varied))} of groups" if varied else ""
    distances = [row["kl_from_start"] for row in rows if "kl_from_start" in row]
    distance = f"; {distances[-1]:.3g} nats per token from its start" if distances else ""
    return ", ".join(parts) + groups + distance
