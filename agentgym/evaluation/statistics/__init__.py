"""The statistics of evaluation, one idea a file. numpy only: scipy, statsmodels and rliable are checked against.

Outcomes are a list with one entry a task, each the list of that task's samples (1.0 solved, 0.0 not).
The samples of one task are no independent draws, so the task is the unit of every interval here.
A task without any sample (all of its episodes failed) is left out by the caller.
"""

from __future__ import annotations

from agentgym.evaluation.statistics.adastop import Decision, adastop
from agentgym.evaluation.statistics.aggregate import (
    interquartile_mean,
    performance_profile,
    probability_of_improvement,
    stratified_bootstrap,
)
from agentgym.evaluation.statistics.bootstrap import cluster_bootstrap, mean_interval
from agentgym.evaluation.statistics.budgets import solved_within
from agentgym.evaluation.statistics.estimate import Comparison, Estimate, Outcomes, task_means
from agentgym.evaluation.statistics.holm import holm
from agentgym.evaluation.statistics.paired import paired
from agentgym.evaluation.statistics.passes import pass_at_k, pass_curve, pass_hat_k
from agentgym.evaluation.statistics.permutation import mcnemar, sign_flip_test, sign_test
from agentgym.evaluation.statistics.power import power_of, tasks_needed
from agentgym.evaluation.statistics.proportion import success_rate, wilson
from agentgym.evaluation.statistics.score import score_interval

__all__ = [
    "Comparison",
    "Decision",
    "Estimate",
    "Outcomes",
    "adastop",
    "cluster_bootstrap",
    "holm",
    "interquartile_mean",
    "mcnemar",
    "mean_interval",
    "paired",
    "pass_at_k",
    "pass_curve",
    "pass_hat_k",
    "performance_profile",
    "power_of",
    "probability_of_improvement",
    "score_interval",
    "sign_flip_test",
    "sign_test",
    "solved_within",
    "stratified_bootstrap",
    "success_rate",
    "task_means",
    "tasks_needed",
    "wilson",
]
