"""The only network connection of a sandbox: a proxy on the host, for the names that a spec allows.

    program in the sandbox ──> 127.0.0.1:3128 there ──> this process, which accepts, checks and connects

The sandbox keeps its empty network. Its guest opens the listening socket before any agent code runs, and hands it to
the host. No process inside the sandbox holds the socket any more, so none can close it, take it over or listen in.
"""
