"""The reference pages under docs/reference/, made from the code: `agentgym dev reference` and `make reference`."""
