"""The stages of a training run, one file each; `agentgym.training.run` puts them in order.

context.py      shared by all stages: the recipe, the run folder, the tasks, the rollouts, the progress bars
warm_start.py   the model that training starts from, and supervised imitation of the demonstrations
reinforce.py    reinforcement learning with turn-level credit
direct_advantage.py  offline: fits a critic of steps, then the policy, on stored turns
token_values.py  offline: learns token values, and measures the policy guided or reranked by them
contract.py     the definitions of a stage
plan.py         the stages of a recipe, in order
collect.py      plays training tasks; the ledger stores the episodes for later stages
prefer.py, rank.py  learn from comparisons of episodes; compare.py holds their common code
step_tasks.py   turns each turn of an expert's episode into a task
generate.py     generates training tasks similar to those that the policy fails at
episode_sources.py, episode_manifest.py  the episodes that a stage learns from, and the record of its choice
stored_episodes.py  stored episodes that are learnt from unchanged
measure.py      validation while training, held-out evaluation before and after, the closing report
"""
