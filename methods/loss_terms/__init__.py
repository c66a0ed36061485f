"""Loss terms: losses that are added to the objective, one a file; `[train.terms.<name>]` names them.

Registered in the entry-point group `agentgym.loss_terms`.
"""
