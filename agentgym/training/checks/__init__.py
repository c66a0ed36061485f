"""Whether a run can do what its recipe says, found out before anything heavy starts.

preflight.py      asks every part of the run
parts.py          the parts of a run, and what they may read of its recipe
trial_reset.py    one task of each environment is reset
trial_episode.py  one episode of the oracle shows rewards that cannot be as the recipe says
memory_plan.py    the memory that a recipe takes, by part
"""
