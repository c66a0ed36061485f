"""Rollouts: one episode from reset to its stop reason, many at once, and what judges, bounds and replays them."""
