"""Whether a run can do what its recipe says, found out before anything heavy starts.

preflight.py      asks every part of the run
losses.py         the objective and the loss terms
sharding.py       weights in parts over several processes
trial_reset.py    one task of each environment is reset
trial_episode.py  one episode of the oracle shows rewards that cannot be as the recipe says
memory_plan.py    the memory that a recipe takes, by part
"""
