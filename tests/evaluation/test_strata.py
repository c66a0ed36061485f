"""The kinds of tasks that tables show: those of enough tasks, in the order of their names; the others are counted."""

from __future__ import annotations

from rich.console import Console

from agentgym.cli.tables import evaluation_table
from agentgym.evaluation.outcomes import TaskOutcome
from agentgym.evaluation.record import Evaluation
from agentgym.evaluation.strata import strata
from agentgym.evaluation.text import format_gains


def evaluation(label: str, success: float) -> Evaluation:
    """Forty tasks of hops 1, 2 and 10, each of a kind of two; four are rare."""
    rows = []
    for i in range(40):
        hops = 10 if i < 20 else 2 if i < 32 else 1
        tags = (f"hops_{hops}", f"pair_{i // 2}", "all", *(["rare"] if i < 4 else []))
        rows.append(TaskOutcome(f"t{i}", tags=tags, success=[success], turns=[1], stop=["answered"]))
    return Evaluation(label, "acme/x-v1", "held_out", "f", "agent", 1, 0, rows, manifest="m")


def test_small_kinds_are_counted_and_large_ones_stand_in_the_order_of_their_numbers():
    tags, left_out = strata(evaluation("before", 0.0), 16)
    assert tags == ["hops_1", "hops_2", "hops_10"]
    assert left_out == "21 kinds of fewer than 5 tasks"


def test_of_too_many_kinds_the_largest_are_kept():
    assert strata(evaluation("before", 0.0), 2) == (["hops_2", "hops_10"], "1 more and 21 kinds of fewer than 5 tasks")


def test_the_kind_of_the_headline_is_shown_first_however_small():
    tags, left_out = strata(evaluation("before", 0.0), 16, first="rare")
    assert tags == ["rare", "hops_1", "hops_2", "hops_10"]
    assert left_out == "20 kinds of fewer than 5 tasks"


def test_the_terminal_shows_the_same():
    console = Console(width=100)
    with console.capture() as printed:
        console.print(evaluation_table(evaluation("before", 0.0)))
    assert "pair_" not in printed.get()
    assert "not shown: 21 kinds of fewer than 5 tasks" in printed.get()
    gains = format_gains(evaluation("before", 0.0), evaluation("after", 1.0))
    assert [line.split()[0] for line in gains.splitlines()[2:6]] == ["hops_1", "hops_2", "hops_10", "not"]
