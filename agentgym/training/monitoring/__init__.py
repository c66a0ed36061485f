"""Monitoring of a training run, and the guards that stop it."""
