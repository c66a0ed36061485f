"""Programs behind the host's sockets: the spawner, which creates sandboxes, and the guest, process 1 of each sandbox.

Standard library and relative imports only. The spawner starts without site-packages and loads this folder
as the top-level package `guest`. The host imports only `frames` (the wire format), `archive` and constants.
"""
