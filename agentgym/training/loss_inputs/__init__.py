"""Training parts that supply further inputs of some objectives and terms.

teacher.py          log-probabilities of a second model
experts.py          a scripted player's or stored episodes of a step's tasks
"""
