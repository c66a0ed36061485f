"""Check before anything heavy starts that a run can do what its recipe says.

preflight.py    checks every part of the run
parts.py        lists the parts of a run and makes the plan that they check
trials.py       resets one task of each environment, and plays one episode of the oracle
memory_plan.py  the memory that a recipe needs, by part
learning_rates.py  learning rates that would destroy a pretrained model
"""
