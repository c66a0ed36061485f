"""The page that shows runs: `agentgym view`. Everything is read, nothing is ever written, and only from this machine.

`shelf` finds the runs, `opened_run` reads one of them while it may be written, `application` answers the page's
requests, `guard` refuses what does not come from it, `serving` starts the server. The page itself is that of the
report: see agentgym.evaluation.report.
"""
