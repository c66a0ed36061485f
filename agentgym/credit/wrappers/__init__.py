"""Wrappers: an estimator made of an estimator, by changing what it sees or what it says.

    from agentgym.credit import estimator
    careful = estimator("return_to_go | gated(threshold=1.0) | off_policy(mode='mis')")

Read from the left: `gated` wraps `return_to_go`, and `off_policy` wraps the two. Each is registered in the
entry-point group `agentgym.credit_wrappers`.

contract.py          what a wrapper declares, and how it makes an estimator
gated.py             lower rewards count where higher ones were reached
calibrated.py        turn rewards weighed by how they went with success
truncation.py        other outcomes for episodes that a budget ended
masked.py            trajectories that are not trained on
off_policy.py        turns weighed by how likely the trained policy still finds them
entropy_weighted.py  turns weighed by how unsure the policy was
task_normalised.py   the same spread for every environment of a batch
"""

from agentgym.credit.wrappers.contract import Wrapper, define_wrapper

__all__ = ["Wrapper", "define_wrapper"]
