"""Supply: which tasks a training step plays, and how the groups of its episodes are formed.

Samplers choose tasks (`train.sampler`): adaptive, explorable, learnable, paired, pass_rate, tagged, ucb. The core keeps
`curriculum`. Gatherers play the groups (`train.gather`):

entropy_forks prefix_buffer starts success_replay from turns of episodes played before
guide guided refined scaffolded observed            with help that is later withdrawn
max_variance refill spread                          more episodes than are trained on, or replacements
instructions variants                               with texts that the policy wrote in earlier steps

The core keeps `dynamic`.
"""
