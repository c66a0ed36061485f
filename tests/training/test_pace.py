"""How fast a training goes, and what its episodes wait for, as numbers of the log."""

from __future__ import annotations

from agentgym import Task, Trajectory, Turn
from agentgym.evaluation.diagnostics import Pace, engine_metrics, wait_metrics
from agentgym.messages import Message, StopReason


def episode(generate_s: float, tools_s: float, duration_s: float, *, tokens: int = 5, failed: bool = False):
    turn = Turn(0, Message("assistant", ""), token_ids=[1] * tokens, generate_s=generate_s, tools_s=tools_s)
    stop = StopReason.INFRA_ERROR if failed else StopReason.ANSWERED
    return Trajectory("e", Task("t", "x/y", ""), turns=[turn], stop_reason=stop, duration_s=duration_s)


def test_shares_of_waiting_are_of_the_valid_episodes_together():
    """6 s of policy, 3 s of tools and 3 s of other things in 12 s; the failed episode does not count."""
    batch = [episode(4, 1, 6), episode(2, 2, 6), episode(0, 50, 50, failed=True)]
    assert wait_metrics(batch) == {"pace/policy_wait": 0.5, "pace/tools_wait": 0.25, "pace/other_wait": 0.25}
    assert wait_metrics([]) == {}


def test_rates_are_between_two_batches_and_the_first_has_none():
    times = iter([10.0, 14.0])
    cpu_times = iter([1.0, 3.5])
    pace = Pace(lambda: next(times), lambda: next(cpu_times))
    batch = [episode(1, 1, 2, tokens=6), episode(1, 1, 2, tokens=2), episode(1, 1, 2, failed=True)]
    assert "pace/tokens_per_s" not in pace.metrics(batch)
    later = pace.metrics(batch)
    assert (later["pace/episodes_per_s"], later["pace/tokens_per_s"]) == (0.5, 2.0)
    assert later["pace/cpu_s"] == 2.5


def test_an_engine_in_this_process_reports_nothing_and_a_cluster_its_nodes():
    class Cluster:
        def report(self):
            return {"nodes": 3, "lost": 1, "driver/busy": 0.5}

    assert engine_metrics(None) == {}
    assert engine_metrics(Cluster()) == {"cluster/nodes": 3.0, "cluster/lost": 1.0, "driver/busy": 0.5}
