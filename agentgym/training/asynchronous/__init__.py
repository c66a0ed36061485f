"""Asynchronous training: episodes are played while the model trains, by weights of bounded age.

stream.py        GroupStream: plays ahead of the trainer and hands over the groups that are finished
capacity.py      how far ahead
step_groups.py   the groups of one step, while their episodes come in
sampling_copy.py the copy of the model that samples
task_order.py    which tasks come next, where the recipe names no sampler
ages.py          metrics of how old and how far off the policy the tokens are
callback.py      the stream's place in the training loop and in checkpoints
"""
