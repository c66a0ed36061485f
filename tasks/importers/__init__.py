"""Importers of public data sets: each turns a user's file into a task set. No data is shipped."""
