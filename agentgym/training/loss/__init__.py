"""The loss of a batch of episodes, computed in parts.

policy_loss.py    the trainer, with TRL's policy losses or registered objectives and terms
grpo_batches.py   TRL's batch of a step: own tokens, subsets of rows, masked advantages
row_data.py       a row's data, other than tokens, that a forward pass needs, in one column
step_batch.py     a step before its loss is computed, and each pass over it, as the training parts see them
microbatches.py   splits a batch into parts of bounded token count and similar row lengths
labelled_head.py  applies the output layer only to trained tokens
scored_rows.py    a row of weighted tokens, and its weighted log-probability under a model
shared_prefixes.py  what sequences of a batch begin with in common, computed once
separate_rows.py  trajectories of several rows, where each row is its own sequence
token_masks.py    the masked distribution of tokens that a logit hook restricted
frozen_model.py   a second model that scores the tokens of a step
role_metrics.py   metrics of each role
vision_inputs.py  the images of a batch
"""
