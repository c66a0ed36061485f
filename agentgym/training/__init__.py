"""Training on TRL: our rollouts and our credit, their optimisation.

`recipe` says a whole run, `run` executes it, `warm_start` imitates demonstrations, `turn_grpo` learns from
reward, `rollouts` plays the episodes, `callbacks` logs, validates and marks checkpoints.
Importing this package loads no torch; `turn_grpo` and `warm_start` do.
"""
