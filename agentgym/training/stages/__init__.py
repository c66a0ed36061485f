"""The stages of a training run, one file each; `agentgym.training.run` puts them in order.

context.py      what every stage shares: the recipe, the run folder, the tasks, the rollouts, the progress bars
demonstrate.py  the task set's scripted players play training tasks
warm_start.py   the model that training starts from, and supervised imitation of the demonstrations
reinforce.py    reinforcement learning with turn-level credit
direct_advantage.py  offline: a critic of steps, then the policy, on stored turns
token_values.py  offline: values of tokens, and the policy guided by them, measured
contract.py     what a stage is
plan.py         which stages a recipe has, in their order
measure.py      validation while training, held-out evaluation before and after, the closing report
"""
