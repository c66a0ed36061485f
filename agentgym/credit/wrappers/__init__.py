"""Wrappers: they make an estimator from an estimator by changing its input or its output.

    from agentgym.credit import estimator
    careful = estimator("return_to_go | gated(threshold=1.0) | off_policy(mode='mis')")

From left to right: `gated` wraps `return_to_go`, and `off_policy` wraps the result. Each is registered in the
entry-point group `agentgym.credit_wrappers`.

contract.py          what a wrapper declares, and how it makes an estimator
gated.py             lower rewards count only if higher ones were reached
calibrated.py        turn rewards weighted by their correlation with success
truncation.py        other outcomes for episodes that a budget ended
masked.py            trajectories that are not trained on
off_policy.py        turns weighted by the ratio of the trained to the sampling policy
entropy_weighted.py  turns weighted by the entropy of the policy
entropy_tokens.py    tokens weighted by the entropy of the policy
top_tokens.py        only the tokens with much credit and high entropy
span_weighted.py     tokens weighted by the spans that a reward named
flow_tokens.py       tokens weighted by how their hidden states go
rank_shaped.py       episodes whose hidden states spread more than usual
self_certainty.py    turns paid for the certainty of the policy in spans, such as rationales
task_normalised.py   the same standard deviation for every environment of a batch
difficulty_scaled.py tasks weighted by how hard they are
"""

from agentgym.credit.wrappers.contract import Wrapper, define_token_weights, define_wrapper

__all__ = ["Wrapper", "define_token_weights", "define_wrapper"]
