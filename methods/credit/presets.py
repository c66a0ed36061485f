"""Published systems that equal one of our estimators with certain options. Each option can still be set."""

from __future__ import annotations

from agentgym.credit import estimator

from .archer import archer
from .bilevel_gae import bilevel_gae
from .reinforce_pp import reinforce_pp

grpo, rloo = estimator("grpo"), estimator("rloo")

# LOOP: only a leave-one-out baseline; the trainer decides how importance weights are clipped.
loop = rloo.preset("loop", source="Chen et al. 2025, arXiv:2502.01600")

# Flow-GRPO of AgentFlow: the outcome, standardised over the group, broadcast to every turn of the planner.
flow_grpo = grpo.preset("flow_grpo", source="AgentFlow, arXiv:2510.05592, and its released code", turn_weight=0.0)

# Return-based normalisation of GEM: every turn of the batch has the same weight. Set GEM's discount as an option.
rebn = reinforce_pp.preset("rebn", source="GEM, arXiv:2510.01051", weigh="turns")

# RAGEN as released: the value at a turn's last token stands for the turn, turns are discounted and tokens are not.
ragen = bilevel_gae.preset(
    "ragen", source="RAGEN, Wang et al. 2025, arXiv:2504.20073, released code", gamma=0.95, boundary="last"
)

# SWEET-RL's critic sees the reference solution and values a turn. Give `values` that depend only on the task (0 will
# do). Give the critic's number for each turn as `action_values`; in the released code it is the mean log-ratio per
# token.
sweet_rl = archer.preset("sweet_rl", source="Zhou et al. 2025, arXiv:2503.15478: a critic with privileged input")
