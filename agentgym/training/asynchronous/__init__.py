"""Asynchronous training: episodes are played while the model trains, by weights of bounded age.

stream.py        GroupStream: plays ahead of the trainer , how far ahead, and which tasks come next
step_groups.py   the groups of one step, while their episodes come in
ages.py          metrics of how old and how far off the policy the tokens are
callback.py      the stream's place in the training loop and in checkpoints
"""
