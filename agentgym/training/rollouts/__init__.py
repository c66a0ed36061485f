"""Play the episodes of a training run."""
