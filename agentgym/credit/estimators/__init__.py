"""The estimators, one a file, each registered under its own name; presets.py: settings of others with a name."""
