"""The recipe of a run: one TOML file, its sections, and what is checked before anything heavy starts.

recipe.py          the whole file
keys.py            overrides from the command line, and keys of earlier versions
policy_section.py  [policy]: the model, how it is loaded, LoRA
reward_section.py  [reward]
train_section.py   [train]: reinforcement
adapt_section.py   [train.adapt]: tasks without truth, judged by votes
vllm_section.py    [vllm]: the server that samples
stage_section.py   an entry of [[stage]]
stage_options.py   the options of the stages that collect episodes and learn from them
preflight.py       what a recipe needs of its task set and of TRL
trial_reset.py     one task of each environment is reset first
trial_episode.py   one episode of the oracle shows rewards that cannot be as the recipe says
memory_plan.py     the memory that a recipe takes, by part
"""
