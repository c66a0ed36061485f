"""A shell on the files of a task folder of Harbor or Terminal-Bench.

folder.py            what the folder says: harbor_config.py, compose_file.py, dockerfile.py, build_context.py
build.py             the image that its Dockerfile makes: build_sandbox.py, base_images.py, task_network.py, disk.py
daemon_build.py      the same by Docker's daemon: bounded_build.py; built_image.py: what both return
environment.py       the agent's shell; submission.py: what it hands in
judging.py           a step's tests, in a separate sandbox; artifacts.py: what one with its own image gets
verifier.py          the reward, and whether it is forged
hacks.py             ways to be paid without the work; controls.py finds them in a paid episode
guest_copy.py        runs inside: copies of a build
"""

from .environment import CodeTerminal
from .verifier import TerminalVerifier

__all__ = ["CodeTerminal", "TerminalVerifier"]
