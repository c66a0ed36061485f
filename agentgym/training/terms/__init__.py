"""Losses that are added to the objective, one file each; `[train.terms.<name>]` names them.

A term is a function of a `TokenBatch` (see agentgym.training.objectives) and of its own options.
"""
