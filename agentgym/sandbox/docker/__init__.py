"""Sandboxes in Docker containers: each container runs the guest as its program, and `docker exec` is never used.

backend.py     creates and lists sandboxes        container.py   the settings and the end of one container
daemon.py      talks to the daemon, in threads    rendezvous.py  the socket by which host and guest connect
owner.py       which process made a container, and whether it still runs
"""

from agentgym.sandbox.docker.backend import DockerBackend as DockerBackend  # the name used by the entry point
