"""Objectives: what a training step minimises with the advantages, one published loss a file.

The core keeps TRL's own losses, `reinforce` and `ppo`. Registered in the entry-point group `agentgym.objectives`.
"""
