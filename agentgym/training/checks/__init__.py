"""Checks a run, before anything heavy starts, against its recipe."""
