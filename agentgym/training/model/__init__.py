"""The trained model and its optimiser."""
