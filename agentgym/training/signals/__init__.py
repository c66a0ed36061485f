"""Where the signals come from that an estimator needs and a record does not hold.

A source gives one or more signals of `agentgym.credit.Group` for the trajectories of a batch, and may learn
from the batch afterwards. Nothing it knows (gold answers, other endings) is ever shown to the policy.

    source.py        what a source is                              costs
    gold.py          gold_logprobs: is the gold answer likelier?   one scoring pass a turn
    replays.py       continuations: episodes played on             episodes
                     counterfactuals: turns left out               replays, without a policy
                     branches: of groups grown as trees            none beside ../branching.py
    critic.py        values, action_values                         a network of its own (turn_scorer.py)
    token_critic.py  token_values                                  the same
    progress.py      contributions                                 the same
    hindsight.py     hindsight: likelier, knowing the outcome?     two scoring passes a turn, or a network
    policy_pass.py   log_ratios, entropies, score_norms            one or two forward passes
    worth.py         the return that critics learn
    choosing.py      the sources that an estimator requires
"""

from agentgym.training.signals.provider import SignalProvider, with_provided_signals, with_signal_rows

__all__ = ["SignalProvider", "with_provided_signals", "with_signal_rows"]
