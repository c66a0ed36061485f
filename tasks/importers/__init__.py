"""Readers of public data sets: each turns a file the user has into a task set. The data is never shipped."""
