"""Wrappers: each makes a new estimator from an estimator by changing its input or its output.

    from agentgym.credit import estimator
    careful = estimator("return_to_go | gated(threshold=1.0) | off_policy(mode='mis')")

From left to right: `gated` wraps `return_to_go`, and `off_policy` wraps the result. Each is registered in the
entry-point group `agentgym.credit_wrappers`. Wrappers of published work are in methods/credit/wrappers.

contract.py          what a wrapper declares, and how it makes an estimator
off_policy.py        turns weighted by the ratio of the trained to the sampling policy
"""

from agentgym.credit.wrappers.contract import Estimate, define_token_weights, define_wrapper, pad_tokens
from agentgym.moved import moved_names

__all__ = ["Estimate", "define_token_weights", "define_wrapper", "pad_tokens"]


__getattr__ = moved_names(__name__)
