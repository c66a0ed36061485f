"""Learn from comparisons of episodes: losses on log-probabilities of whole rows, and their trainer.

scored_rows.py   a row of weighted tokens, and its weighted log-probability under a model
losses.py        DPO and DMPO, KTO, RRHF
pairs.py         selects the episodes, turns or segments to compare
trainer.py       optimiser steps on groups of rows
"""
