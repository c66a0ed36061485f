"""Published methods: one method a file or folder, with all its parts together.

attempts.py     several attempts at a task in one episode (an episode hook)
credit/         estimators of credit by turn, and wrappers that change what an estimator gets or gives
stop_rules.py   rules that end a hopeless episode (episode hooks)

Installed as `agentgym.methods`. Every part has a registered name (the entry points in pyproject.toml), so a recipe, a
ledger or `agentgym list` never mentions a module of this folder. The files import public names of agentgym alone, and
are written exactly as another package would write them: see docs/how-to.
"""
