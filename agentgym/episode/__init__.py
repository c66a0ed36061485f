"""The old home of what is now `agentgym.rollout`, `agentgym.storage` and `agentgym.trajectory`; goes in 0.3.0."""
