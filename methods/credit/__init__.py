"""Published estimators of credit per turn: one estimator per file, and wrappers/ with one wrapper per file.

An estimator is registered in the entry-point group `agentgym.estimators`, a wrapper in `agentgym.credit_wrappers`.
Newcomers need only seven of them: grpo, dr_grpo, rloo, return_to_go, turn_gae, gigpo, mt_grpo.
"""
