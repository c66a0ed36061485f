"""The recipe of a run: one TOML file and its sections. Data only: nothing here trains or loads a model.

recipe.py          the whole file
keys.py            the recipe's file, overrides from the command line, and keys of earlier versions
policy_section.py  [policy]: the model, how it is loaded, LoRA
reward_section.py  [reward]
train_section.py   [train]: reinforcement
warm_start_section.py, evaluate_section.py, hardware_section.py   [warm_start], [evaluate], [machine] and [vllm]
stage_section.py   an entry of [[stage]], and the options of stages that collect episodes or learn from them
guard_section.py   [guard]: when training counts as collapsing
names.py           checks that every name in a recipe is registered
"""
