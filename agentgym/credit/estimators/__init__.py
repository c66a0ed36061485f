"""The estimators, one per file, each registered under its own name. presets.py holds estimators with other defaults."""
