"""Signals that an estimator requires but records do not hold.

A provider computes one or more signals of `agentgym.credit.Group` for the trajectories of a batch, and may learn from
the batch afterwards. The policy never sees a provider's knowledge, such as gold answers or other endings.

    provider.py       the provider protocol                         costs
    gold_answer.py    gold_logprobs: is the gold answer likelier?   one scoring pass per turn
    replays.py        continuations: episodes continued from turns  episodes
                      counterfactuals: turns left out               replays, without a policy
                      branches: labels of groups grown as trees     nothing beyond ../gatherers/branching.py
    critic.py         values, action_values                         a separate network (turn_scorer.py)
    replayed_critic.py   values learnt also from earlier steps      a separate network; the policy scores stored turns
    token_critic.py   token_values                                  a separate network
    contributions.py  contributions                                 a separate network
    hindsight.py      hindsight: likelier given the outcome?        two scoring passes per turn, or a network
    policy_pass.py    log_ratios, score_norms, entropies and certainties        one or two forward passes
    named_spans.py    span_values: tokens of the spans that a reward named      nothing
    state_ranks.py    rank_deviations, with velocity and acceleration           one forward pass
    state_flow.py     flow_deviations: distance from the states of successes    one forward pass and a small network
    hidden_states.py  the states that state_ranks.py and state_flow.py read
    selection.py      the providers that an estimator requires
"""

from agentgym.training.signals.provider import SignalProvider

__all__ = ["SignalProvider"]
