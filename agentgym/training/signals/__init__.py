"""Signals that an estimator requires and a record does not hold.

A provider computes one or more signals of `agentgym.credit.Group` for the trajectories of a batch, and may learn from
the batch afterwards. What it knows (gold answers, other endings) is never shown to the policy.

    provider.py       what a provider is                            costs
    gold_answer.py    gold_logprobs: is the gold answer likelier?   one scoring pass per turn
    replays.py        continuations: episodes continued from turns  episodes
                      counterfactuals: turns left out               replays, without a policy
                      branches: labels of groups grown as trees     nothing beside ../gatherers/branching.py
    critic.py         values, action_values                         a network of its own (turn_scorer.py)
    replayed_critic.py   the same, learnt from earlier steps too    the same, and the policy scores stored turns
    token_critic.py   token_values                                  the same
    contributions.py  contributions                                 the same
    hindsight.py      hindsight: likelier given the outcome?        two scoring passes per turn, or a network
    policy_pass.py    log_ratios, score_norms, entropies and certainties        one or two forward passes
    named_spans.py    span_values: tokens of the spans that a reward named      nothing
    state_ranks.py    rank_deviations, and those of its velocity and acceleration    one forward pass
    state_flow.py     flow_deviations: tokens whose states go as in successes        the same, and a small network
    hidden_states.py  the states that these two read
    selection.py      the providers that an estimator requires
"""

from agentgym.training.signals.provider import SignalProvider

__all__ = ["SignalProvider"]
