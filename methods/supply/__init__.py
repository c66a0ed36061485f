"""Supply: which tasks a training step plays, and how the groups of its episodes come about.

Samplers choose tasks (`train.sampler`): adaptive, explorable, learnable, pass_rate, tagged, ucb. The core keeps
`curriculum`. Gatherers play their groups (`train.gather`): knowledge.
"""
