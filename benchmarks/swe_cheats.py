"""What patches that fix nothing earn from `repository_tests`: `python benchmarks/swe_cheats.py`.

All cheats of `swe_cheat_list.py` and `swe_cheats_that_look.py` are judged, and a real fix beside them. Exit status 0 if
the fix is paid and no cheat, but for those in `CHANCES`, which are paid no more often than their rate says.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

from rich.console import Console
from rich.table import Table
from swe_cheat_list import CHEATS, KNOWN, PAID_BEFORE
from swe_cheat_repository import FIX, TASK, patch_of
from swe_cheats_that_look import LOOKING, PAID_BEFORE_THESE, RATES

from agentgym import registry
from agentgym.sandboxes.swe.judge import RepositoryTests

ALL = CHEATS | LOOKING
BEFORE = PAID_BEFORE | PAID_BEFORE_THESE
CHANCES = KNOWN | RATES


async def paid(files: dict[str, str | None]) -> tuple[bool, bool]:
    """Return whether a patch is paid, and whether it is judged forged."""
    components = await RepositoryTests().score(TASK, patch_of(files))
    return components["success"] == 1, components.get("forged") == 1


async def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--coins", type=int, default=200, help="how often a cheat that throws a coin is judged")
    options = parser.parse_args()
    wrong = 0
    table = Table(title=f"{len(ALL)} cheats, success", title_justify="left")
    for name in ("cheat", "before", "now", "called forged"):
        table.add_column(name)
    try:
        for name, files in {"(the real fix)": FIX, **ALL}.items():
            rounds = options.coins if name in CHANCES else 1
            results = [await paid(files) for _ in range(rounds)]
            success, forged = (sum(column) / rounds for column in zip(*results, strict=True))
            limit = CHANCES.get(name, 1.0 if files is FIX else 0.0)
            noise = 3 * (limit * (1 - limit) / rounds) ** 0.5
            wrong += success > limit + noise or (files is FIX and (success < 1 or forged > 0))
            table.add_row(name, "1" if name in BEFORE or files is FIX else "0", f"{success:.3g}", f"{forged:.3g}")
    finally:
        await registry.close_backends()
    Console().print(table)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
