"""Check before anything heavy starts that a run can do what its recipe says.

preflight.py      checks every part of the run
parts.py          lists the parts of a run and makes the plan that they check
trial_reset.py    resets one task of each environment
trial_episode.py  plays one episode of the oracle to find reward settings that cannot work
memory_plan.py    the memory that a recipe needs, by part
"""
