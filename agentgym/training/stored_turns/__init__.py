"""Turns of recorded episodes, which critics and offline stages learn from.

transitions.py   turns of recorded episodes as transitions (what came before, the turn, its reward, what came after)
store.py         a bounded store of transitions that a seeded generator draws from
archive.py       episodes of this run and of others by id, and whether they hold the tokens of a model
turn_logprobs.py log-probabilities of stored turns under a model as it is now
"""
