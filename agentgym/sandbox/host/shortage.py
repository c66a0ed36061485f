"""Report the limit of the host process that an operation has reached. The agent is never the cause."""

from __future__ import annotations

import errno
import resource
from collections.abc import Iterator
from contextlib import contextmanager

from agentgym.errors import SandboxUnavailable


@contextmanager
def descriptors_available() -> Iterator[None]:
    """Raise SandboxUnavailable instead of an OSError if this process may open no more files."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        raise SandboxUnavailable(
            f"This process has reached its limit of {limit} open files ({error.strerror}). Every sandbox needs two, "
            "and a running call some more. Raise the limit (ulimit -n), or keep fewer sandboxes open at once."
        ) from error
