"""The workers of a run: they play its episodes, many at once.

pool.py                WorkerPool: plays one episode after another, and hands over whole groups
slots.py               limits how many are played at once, by all runs that share an event loop
standstill.py          a warning when no episode makes progress
"""
