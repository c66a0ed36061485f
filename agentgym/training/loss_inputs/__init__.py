"""What some objectives and terms are given beside the policy's own episodes.

loss_inputs.py      all of it, for one step
teacher.py          log-probabilities of a second model
experts.py          episodes of a scripted player on the tasks of a step, or stored ones
corrections.py      thoughts that a second policy rewrote
optimal_values.py   the value of a task under the best policy near the reference
"""
