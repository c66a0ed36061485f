"""Evaluations and episodes in the formats of other tools: Inspect's logs, and Parquet as `datasets` reads it."""
