"""Monitoring of a training run, and the guards that stop it.

callbacks.py       trainer callbacks: metrics, validation, checkpoints, guard
diagnostics.py     metrics of a batch of episodes, and the speed of playing and training
collapse_guard.py  detects a collapse in the metrics
credit_audit.py    compares credit with counterfactual credit every few steps
progress.py        progress bars, or lines in a log
"""
