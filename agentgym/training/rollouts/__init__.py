"""The episodes of a training run are played here.

rollouts.py      plays them on one event loop that lives as long as the run
episode_loop.py  that loop: in the caller's thread, or in one of its own
trl_policy.py    a policy that samples through TRL's own backend
"""
