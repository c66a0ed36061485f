"""The loss of a batch of episodes, computed in parts.

policy_loss.py    the trainer: TRL's policy losses, or objectives and terms of our registries
grpo_batches.py   TRL's batch of a step: the agent's own tokens, some rows as a batch, turns without an advantage
row_data.py       what a forward pass needs of a row beside its tokens, in one column
step_batch.py     a step whose loss is about to be computed, as the parts of the training see it
microbatches.py   parts of a bounded number of tokens, rows of like length together
labelled_head.py  the output layer sees the tokens that are trained, and no others
separate_rows.py  trajectories of several rows: each row is a sequence of its own
token_masks.py    the masked distribution of tokens that a logit hook restricted
entropy_history.py  how sure the policy was in earlier steps
vision_inputs.py  the images of a batch
"""
