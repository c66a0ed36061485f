"""Training parts that some objectives and terms need beside the policy's own episodes.

teacher.py          log-probabilities of a second model
experts.py          episodes of a scripted player on the tasks of a step, or stored ones
optimal_values.py   the value of a task under the best policy near the reference
"""
