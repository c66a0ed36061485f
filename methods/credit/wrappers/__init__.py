"""Wrappers from published work: they change the input or the output of an estimator.

    from agentgym.credit import estimator
    careful = estimator("return_to_go | gated(threshold=1.0) | masked(overlong=True)")

calibrated.py        weight turn rewards by their correlation with success
difficulty_scaled.py weight tasks by their difficulty
entropy_tokens.py    weight tokens by the policy's entropy
entropy_weighted.py  weight turns by the policy's entropy
flow_tokens.py weight tokens by how well their hidden states follow those of successes
gated.py             count lower rewards only if higher ones were reached
masked.py            exclude trajectories from training
rank_shaped.py       favour episodes whose hidden states spread more than usual
self_certainty.py    reward the policy's certainty in spans, such as rationales
span_weighted.py weight tokens by the spans that a reward marked
task_normalised.py   give every environment of a batch the same standard deviation
top_tokens.py        train only tokens with much credit and high entropy
truncation.py        change the outcomes of episodes that a budget ended
"""
