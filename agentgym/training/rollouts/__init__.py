"""Play the episodes of a training run.

rollouts.py      plays episodes on one event loop that lives as long as the run
episode_loop.py  the event loop, in the caller's thread or in its own thread
"""
