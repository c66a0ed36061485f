"""Objectives: what a training step minimises given the advantages, one published loss per file.

The core keeps TRL's own losses, `reinforce` and `ppo`. Registered in the entry-point group `agentgym.objectives`.
"""
