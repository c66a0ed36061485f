"""Where the signals come from that an estimator needs and a record does not hold.

A source gives one or more signals of `agentgym.credit.Group` for the trajectories of a batch, and may learn
from the batch afterwards. Nothing it knows (gold answers, other endings) is ever shown to the policy.

    source.py        what a source is                              costs
    gold.py          gold_logprobs: is the gold answer likelier?   one scoring pass a turn
    replays.py       continuations: episodes played on             episodes
                     counterfactuals: turns left out               replays, without a policy
    critic.py        values, action_values                         a network of its own (turn_scorer.py)
    progress.py      contributions                                 the same
    policy_pass.py   log_ratios, entropies (of the batch itself)   one forward pass
    choosing.py      the sources that an estimator requires
"""

from agentgym.training.signals.source import Source, with_rows, with_sources

__all__ = ["Source", "with_rows", "with_sources"]
