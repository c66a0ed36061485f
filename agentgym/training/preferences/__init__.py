"""Learning from which of several episodes is better: losses on log-probabilities of whole rows, and their trainer.

scored_rows.py   a row of tokens with a weight for each, and its weighted log-probability under a model
losses.py        DPO and DMPO, KTO, RRHF
pairs.py         which episodes, turns or segments are compared
trainer.py       optimiser steps on groups of rows
"""
