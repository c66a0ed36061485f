"""What a training run says while it goes on, and what stops it.

callbacks.py       trainer callbacks: metrics, validation, checkpoints, guard
diagnostics.py     metrics of a batch of episodes, and how fast a run plays and trains
collapse_guard.py  recognises a collapse in the metrics
credit_audit.py    credit compared with counterfactual credit, every few steps
progress.py        progress bars, or lines in a log
silence.py         notices of the libraries are switched off
"""
