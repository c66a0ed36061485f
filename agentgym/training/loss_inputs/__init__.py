"""Training parts that supply further inputs of some objectives and terms.

teacher.py          log-probabilities of a second model
experts.py          a scripted player's or stored episodes of a step's tasks
optimal_values.py   the value of a task under the best policy near the reference
"""
