"""Wrappers from published work: they change the input or the output of an estimator.

    from agentgym.credit import estimator
    careful = estimator("return_to_go | gated(threshold=1.0) | masked(overlong=True)")

calibrated.py        turn rewards weighted by their correlation with success
difficulty_scaled.py tasks weighted by how hard they are
entropy_tokens.py    tokens weighted by the entropy of the policy
entropy_weighted.py  turns weighted by the entropy of the policy
flow_tokens.py       tokens weighted by how their hidden states go
gated.py             lower rewards count only if higher ones were reached
masked.py            trajectories that are not trained on
rank_shaped.py       episodes whose hidden states spread more than usual
self_certainty.py    turns paid for the certainty of the policy in spans, such as rationales
span_weighted.py     tokens weighted by the spans that a reward named
task_normalised.py   the same standard deviation for every environment of a batch
top_tokens.py        only the tokens with much credit and high entropy
truncation.py        other outcomes for episodes that a budget ended
"""
