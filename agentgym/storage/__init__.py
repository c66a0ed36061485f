"""Storage: the ledger that keeps every finished turn, the reader of ledgers, and the layout of a run folder."""
