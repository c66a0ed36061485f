"""Plays the episodes of a training run."""
