"""Asynchronous training: play episodes while the model trains, with weights of bounded age.

stream.py        GroupStream: plays ahead of the trainer, limits how far, and draws the next tasks
step_groups.py   the groups of one step while their episodes are played
"""
