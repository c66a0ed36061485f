"""The credit audit: whether credit agrees with the value of turns, measured by continuing a sample of episodes.

agreement.py        the arithmetic: credit against counterfactual credit of the same turns
comparison.py       `audit`: draws the sample, continues its episodes, compares
command.py          `agentgym credit audit`, for a finished run
training_part.py    the training part `credit_audit`, every few steps of a training

Source: counterfactual credit as in VinePPO, Kazemnejad et al. 2024, arXiv:2410.01679.
"""

from .comparison import Audit, audit

__all__ = ["Audit", "audit"]
