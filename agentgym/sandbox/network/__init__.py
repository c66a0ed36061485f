"""The only network connections of a sandbox: a proxy on the host, for the names that a spec allows, and a relay.

    program in the sandbox ──> 127.0.0.1:3128 there ──> this process, which accepts, checks and connects
    program in the sandbox ──> 127.0.0.1:3129 there ──> this process ──> one fixed address, such as a gateway's

The sandbox keeps its empty network. Its guest opens the listening socket before any agent code runs, and hands it to
the host. No process inside the sandbox holds the socket any more, so none can close it, take it over or listen in.
"""
