"""Advice on which estimator a run should try: `agentgym credit advise RUN`.

facts.py      facts of a run's groups, and what they suggest
subtasks.py   a model of episodes that gives each estimator's signal-to-noise ratio
command.py    the command
"""
