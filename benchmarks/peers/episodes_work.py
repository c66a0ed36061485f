"""The episodes that every peer plays, and their timing. Standard library only: each runs in its own environment.

In an episode a model calls the tool `add(amount)` eight times and then says 8. The model is a script, the counter is in
memory. A driver's `play(count)` plays `count` episodes, 64 at once, judges them, and raises unless all are right.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import logging
import time
from collections.abc import Callable

CALLS = 8
TURNS = CALLS + 1
AT_ONCE = 64


def main(play: Callable[[int], None], package: str) -> None:
    """The program of a driver. Prints JSON on the last line: turns per CPU-second of each round."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    play(4)  # imports, first-time work
    rates = []
    for _ in range(options.rounds):
        began = time.process_time()
        play(options.episodes)
        rates.append(options.episodes * TURNS / (time.process_time() - began))
    print("\n" + json.dumps({"version": importlib.metadata.version(package), "rates": rates}))
