"""The loss of a batch of episodes, computed in parts.

policy_loss.py    the trainer, with TRL's policy losses or registered objectives and terms
grpo_batches.py   TRL's batch of a step: own tokens, subsets of rows, masked advantages
row_data.py       a row's data, other than tokens, that a forward pass needs, in one column
step_batch.py     a step before its loss is computed, as the training parts see it
microbatches.py   splits a batch into parts of bounded token count and similar row lengths
labelled_head.py  applies the output layer only to trained tokens
scored_rows.py    a row of weighted tokens, and its weighted log-probability under a model
separate_rows.py  trajectories of several rows, where each row is its own sequence
token_masks.py    the masked distribution of tokens that a logit hook restricted
entropy_history.py  the policy's entropies in earlier steps
vision_inputs.py  the images of a batch
"""
