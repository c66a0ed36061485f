"""Programs that serve the host over sockets: the spawner creates sandboxes; the guest is process 1 of a sandbox.

Standard library and relative imports only. The spawner starts without site-packages and loads this folder
as the top-level package `guest`. The host imports only `frames` (the wire format), `archive` and constants.
"""
