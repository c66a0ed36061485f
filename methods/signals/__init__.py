"""Providers of signals that an estimator requires but the record of an episode does not hold. Each is registered under
its signal's name. The last column says what a signal costs.

gold_answer.py     gold_logprobs: is the gold answer likelier?                 one scoring pass per turn
replays.py         continuations: episodes continued from turns                episodes
                   counterfactuals: turns left out                             replays, without a policy
                   branches: labels of groups grown as trees                   nothing beyond growing the trees
turn_critic.py values, action_values; may learn from earlier steps too a separate network (turn_scorer.py)
token_critic.py token_values a separate network contributions.py contributions a separate network
hindsight.py       hindsight: likelier given the outcome?                      two scoring passes per turn, or a network
named_spans.py     span_values: tokens of the spans that a reward named        nothing (token_spans.py)
state_ranks.py     rank_deviations, with velocity and acceleration             one forward pass (hidden_states.py)
state_flow.py      flow_deviations: distance from the states of successes      one forward pass and a small network
"""
