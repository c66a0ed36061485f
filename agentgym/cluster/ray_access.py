"""Access to a Ray cluster: send Ray's token to a cluster whose head asks for it.

Ray's head asks for a token if one exists when it starts (a plain `ray.init()` writes one), but a node or a driver that
is given an address sends none unless RAY_AUTH_MODE says so. A process can be connected to only one cluster.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from agentgym.errors import ClusterError

MODE_VARIABLE = "RAY_AUTH_MODE"
_chosen_here = False
"""Whether this module has set RAY_AUTH_MODE to `token`, for the cluster last connected to."""
ASK_S = 5.0
"""How long a cluster may take to say whether it admits a process."""
_ASK = "import sys; from agentgym.cluster.ray_access import refuses; sys.exit(7 if refuses(sys.argv[1]) else 0)"


def send_token_if_asked(address: str) -> None:
    """Make this process and its children send Ray's token, if the cluster at the address asks for one.

    If the user has set RAY_AUTH_MODE, leave it unchanged.

    Raises: ClusterError if the cluster asks for a token that this process does not send, or if the program that
        listens at the address does not answer as a cluster does.
    """
    global _chosen_here
    if MODE_VARIABLE not in os.environ or _chosen_here:
        asks = _has_token() and _refuses_without_token(address)
        if asks != _chosen_here:
            if asks:
                os.environ[MODE_VARIABLE] = "token"
            else:
                del os.environ[MODE_VARIABLE]
            import_module("ray._raylet").Config.initialize("")  # make Ray read its variables again
            _chosen_here = asks
    sends = os.environ.get(MODE_VARIABLE, "").lower() == "token"
    if (sends and not _has_token()) or refuses(address):  # asking with a missing token would end the process
        given = "another one" if sends and _has_token() else "none"
        raise ClusterError(
            f"The cluster at {address} requires Ray's token, but this process sends {given}. Copy ~/.ray/auth_token "
            f"from the head's host to this host, or set RAY_AUTH_TOKEN to its content, and leave {MODE_VARIABLE} "
            "unset."
        )


def head_asks_for_token() -> bool:
    """Return whether a head started here asks for a token."""
    return os.environ.get(MODE_VARIABLE, "token").lower() == "token" and _has_token()


def refuses(address: str) -> bool:
    """Return whether the cluster at an address refuses this process for lack of a token.

    Raises: ClusterError if nothing there answers as the head of a cluster, for which `ray.init` would wait for minutes.
    """
    from ray.exceptions import AuthenticationError, RayError, RpcError

    try:
        import_module("ray._raylet").InnerGcsClient.standalone(address, None, int(1000 * ASK_S))
    except AuthenticationError:
        return True
    except RpcError as error:
        raise ClusterError(
            f"The program at {address} does not answer as the head of a Ray cluster ({error}). Give the HOST:PORT "
            "that `agentgym cluster up` printed. If you gave that one, the head hangs: restart it."
        ) from error
    except (AttributeError, TypeError, RayError, OSError, RuntimeError):  # the next connection reports the reason
        return False
    return False


def _has_token() -> bool:
    """Return whether Ray finds a token: in RAY_AUTH_TOKEN, the file in RAY_AUTH_TOKEN_PATH, or ~/.ray/auth_token."""
    loader = getattr(import_module("ray._raylet"), "AuthenticationTokenLoader", None)  # older versions know no tokens
    if loader is None:
        return False
    try:
        return bool(loader.instance().has_token(ignore_auth_mode=True))
    finally:
        loader.instance().reset_cache()  # once Ray has cached a token, it refuses the calls of a cluster without one


@contextmanager
def own_sigterm() -> Iterator[None]:
    """Restore this process's handler of SIGTERM, if it has one: Ray's prints a C++ stack trace and exits."""
    handler = signal.getsignal(signal.SIGTERM)
    yield
    if callable(handler) and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)


def check_connected_to(address: str, ray: Any) -> None:
    """Check that this process is connected to the cluster at an address; `auto` means any.

    Raises: ClusterError if it is connected to another cluster.
    """
    connected = ray.get_runtime_context().gcs_address
    if address != "auto" and not _is_same(address, connected):
        raise ClusterError(
            f"This process is already connected to the Ray cluster at {connected}, so it cannot also use the one at "
            f"{address}. Give every engine and backend of a process the same address, or leave the other cluster by "
            "ray.shutdown()."
        )


def _refuses_without_token(address: str) -> bool:
    """Return whether the cluster refuses a process without a token. Ask in a child, since Ray prints a warning."""
    command, environment = [sys.executable, "-c", _ASK, address], os.environ | {MODE_VARIABLE: "disabled"}
    return subprocess.run(command, env=environment, capture_output=True, timeout=60, check=False).returncode == 7


def _is_same(address: str, other: str) -> bool:
    """Return whether two addresses, host:port, name one listener; all addresses of this host count as equal."""
    (host, _, port), (other_host, _, other_port) = address.rpartition(":"), other.rpartition(":")
    if port != other_port:
        return False
    hosts, other_hosts = _addresses_of(host), _addresses_of(other_host)
    return bool(hosts & other_hosts) or (any(map(_is_here, hosts)) and any(map(_is_here, other_hosts)))


def _addresses_of(host: str) -> set[str]:
    host = host.strip("[]")
    try:
        return {str(row[4][0]) for row in socket.getaddrinfo(host, None)}
    except OSError:
        return {host}


def _is_here(address: str) -> bool:
    """Return whether an address belongs to this host."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True
