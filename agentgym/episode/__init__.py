"""Episodes: the loop that plays one, the manager that plays many, and the record of them in memory and on disk."""
