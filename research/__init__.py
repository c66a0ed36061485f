"""Tools that measure or describe agentgym itself. They are part of a checkout, but not of a wheel.

commands.py     the commands of `agentgym dev` that write pages and measure estimators
reference/      the pages under docs/reference, the catalogue and the table of published systems
credit_bench/   the error of an estimator's credit on tasks where the true credit is known
svg.py          line charts for pages without scripts
"""
