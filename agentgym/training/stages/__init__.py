"""The stages of a training run, one file each; `agentgym.training.run` puts them in order.

context.py      what every stage shares: the recipe, the run folder, the tasks, the rollouts, the progress bars
warm_start.py   the model that training starts from, and supervised imitation of the demonstrations
reinforce.py    reinforcement learning with turn-level credit
direct_advantage.py  offline: a critic of steps, then the policy, on stored turns
token_values.py  offline: values of tokens, and the policy guided by them or chosen from by them, measured
contract.py     what a stage is
plan.py         which stages a recipe has, in their order
collect.py      training tasks are played, and the ledger keeps the episodes for later stages
prefer.py, rank.py                      learning from which episodes are better; compare.py has what both do
step_tasks.py   every turn of an expert's episode as a task
generate.py     new training tasks like those that the policy fails at
episode_sources.py, episode_manifest.py whose episodes a stage learns from, and the record of what it chose
stored_episodes.py  those that are learnt from as they are
measure.py      validation while training, held-out evaluation before and after, the closing report
"""
