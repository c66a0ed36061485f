"""Sandboxes in Docker containers: our guest is their program, and nothing goes through `docker exec`.

backend.py     makes and finds them               container.py   one container as the machine behind a sandbox
daemon.py      talks to the daemon, in threads    meeting.py     where host and guest find each other
owner.py       who made a container, and whether they live
"""

from agentgym.sandbox.docker.backend import DockerBackend

__all__ = ["DockerBackend"]
