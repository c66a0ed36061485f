"""The loss of a batch of episodes, computed in parts."""
