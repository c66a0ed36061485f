"""Importers of public data sets: each turns a file that the user has into a task set. No data is shipped."""
