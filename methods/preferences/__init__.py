"""Learn from comparisons of episodes: DPO, DMPO, SDPO, KTO and RRHF.

prefer.py     the stage `prefer`: which of two episodes, turns or segments is better
rank.py       the stage `rank`: the order of the episodes of each task
losses.py     their losses on log-probabilities of whole rows
pairs.py      selects the episodes, turns or segments to compare
options.py    the options of both stages
comparing.py  their checks
"""
