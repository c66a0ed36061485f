"""The model that is trained and its optimiser.

models.py              load, save and finish it: all of its weights, or an adapter
grpo_config.py         TRL's GRPOConfig from a recipe's sections, and what every training asks of transformers' Trainer
sharding.py            its weights in parts, one in each process
reference.py           the model that `train.kl` is measured against
model_failures.py      where and why it failed: memory, NaN
muon.py                the optimiser Muon
signal_to_noise.py     a learning rate that follows how much the groups of a step agree
"""
