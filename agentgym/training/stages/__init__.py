"""The stages of a training run, one file each; `agentgym.training.run` puts them in order.

context.py      what every stage shares: the recipe, the run folder, the tasks, the rollouts, the progress bars
demonstrate.py  the task set's scripted players play training tasks
warm_start.py   the model that training starts from, and supervised imitation of the demonstrations
reinforce.py    reinforcement learning with turn-level credit
direct_advantage.py  offline: a critic of steps, then the policy, on stored turns
token_values.py  offline: values of tokens, and the policy guided by them or chosen from by them, measured
contract.py     what a stage is
plan.py         which stages a recipe has, in their order
collect.py      training tasks are played, and the ledger keeps the episodes for later stages
prefer.py, rank.py                      learning from which episodes are better; compare.py has what both do
step_tasks.py, step_task_file.py        every turn of an expert's episode as a task; the file of these tasks
instruction_file.py knowledge_file.py   the best instruction of a reinforcement, and what its episodes have taught, for
                                        the stages after it
generate.py     new training tasks like those that the policy fails at
repeat.py       a block of stages that is run several times
episode_sources.py, episode_manifest.py whose episodes a stage learns from, and the record of what it chose
selection.py    which of them are imitated; turn_ranking.py: the credit of their turns
tokenise.py     token ids of episodes that were played without any
measure.py      validation while training, held-out evaluation before and after, the closing report
"""
