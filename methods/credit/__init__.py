"""Credit by turn from published work: one estimator a file, and wrappers/ with one wrapper a file.

An estimator is registered in the entry-point group `agentgym.estimators`, a wrapper in `agentgym.credit_wrappers`. The
core keeps the seven that a newcomer meets first: grpo, dr_grpo, rloo, return_to_go, turn_gae, gigpo, mt_grpo.
"""
