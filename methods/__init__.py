"""Published methods: one file or folder per method, with all its parts together.

adapt.py        training on tasks without their truth (a training part)
attempts.py     several attempts at a task in one episode (an episode hook)
credit/         estimators of credit per turn, and wrappers that change an estimator's input or output
muon.py         an optimiser of the warm start
role_order.py   updates of several roles in order, and roles that exchange their adapters (training parts)
stop_rules.py   rules that end a hopeless episode (episode hooks)

Installed as `agentgym.methods`. Every part has a registered name (the entry points in pyproject.toml), so recipes,
ledgers and `agentgym list` never mention a module of this folder. The files import only public names of agentgym and
are written exactly as a third-party package would be: see docs/how-to.
"""
