"""The page that shows runs: `agentgym view`. It writes nothing but notes, and is served to this machine only.

`shelf` finds the runs, `opened_run` reads a run that may still be written, `application` answers the page's requests,
`serving` starts the server, which refuses all other requests. The page is the report's page: see
agentgym.evaluation.report.
"""
