"""The recipe of a run: one TOML file and its sections. Data only: nothing here trains or loads a model."""
