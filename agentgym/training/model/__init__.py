"""The trained model and its optimiser.

models.py              load, save and finish the model: all weights, or an adapter
grpo_config.py         TRL's GRPOConfig from a recipe's sections, and common TrainingArguments
sharding.py            FSDP: the model's weights sharded over processes
model_failures.py      reports why training failed or is about to: memory, NaN
"""
