"""Supply: which tasks a training step plays, and how the groups of its episodes come about.

Samplers choose tasks (`train.sampler`): adaptive, explorable, learnable, pass_rate, tagged, ucb. The core keeps
`curriculum`. Gatherers play their groups (`train.gather`):

entropy_forks prefix_buffer starts success_replay   from the turns of earlier episodes
guide guided refined scaffolded observed            with help that is taken away again
max_variance refill spread                          more episodes than are trained on, or others in their place
instructions variants                               what the policy wrote in earlier steps

The core keeps `dynamic`.
"""
