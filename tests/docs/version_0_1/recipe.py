"""A recipe of version 0.1 beside this file."""

from pathlib import Path

from agentgym.training.recipe.recipe import Recipe

recipe = Recipe.load(Path(__file__).with_name("quickstart.toml"))
assert (recipe.episode.max_turn_tokens, recipe.episode.max_episode_tokens) == (64, 256)
assert (recipe.warm_start.imperfect_oracle, recipe.evaluate.group_size) == (0.5, 1)
print("The recipe was read.")
