"""Makes a process find what it would find on macOS: put this folder on PYTHONPATH.

What Linux alone has is taken from Python's modules and from the C library, and /proc is gone.
"""

import builtins
import ctypes
import importlib
import io
import os
import resource
import select
import selectors
import signal
import socket
import sys
import sysconfig

MISSING = {
    os: """pidfd_open memfd_create sched_getaffinity sched_setaffinity setresuid setresgid getresuid getresgid eventfd
        splice posix_fadvise O_PATH O_TMPFILE unshare setns getrandom copy_file_range setxattr getxattr listxattr
        removexattr P_PIDFD""",
    signal: "pidfd_send_signal SIGSTKFLT SIGPWR SIGPOLL SIGRTMIN SIGRTMAX",
    select: "epoll EPOLLIN",
    resource: "prlimit RLIMIT_NICE RLIMIT_RTPRIO",
    socket: "AF_NETLINK AF_PACKET SOCK_CLOEXEC SOCK_NONBLOCK SO_PEERCRED",
}
for module, names in MISSING.items():
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)

importlib.reload(selectors)  # it chooses once what event loops use
# These look at the platform when they are imported, for files that only a Python for macOS has.
for name in ("asyncio", "ctypes.util", "multiprocessing", "urllib.request", "uuid"):
    importlib.import_module(name)
sysconfig.get_config_vars()

sys.platform = "darwin"
_uname = os.uname_result(("Darwin", "mac", "25.0.0", "Darwin Kernel Version 25.0.0", "arm64"))
os.uname = lambda: _uname

_LINUX_CALLS = ("prctl", "unshare", "setns", "umount2", "clone", "capget", "memfd_create")


def _without(library):
    class Without(library):
        def __getattr__(self, name):
            if name in _LINUX_CALLS:
                raise AttributeError(f"dlsym(RTLD_DEFAULT, {name}): symbol not found")
            return super().__getattr__(name)

    return Without


ctypes.CDLL, ctypes.PyDLL = _without(ctypes.CDLL), _without(ctypes.PyDLL)


def _no_proc(function):
    def checked(path=".", *arguments, **options):
        if isinstance(path, str | bytes | os.PathLike) and os.fsdecode(path).startswith(("/proc", "/sys")):
            raise FileNotFoundError(2, "No such file or directory", path)
        return function(path, *arguments, **options)

    return checked


for module, names in ((builtins, ["open"]), (io, ["open"]), (os, ["open", "listdir", "scandir", "stat", "readlink"])):
    for name in names:
        setattr(module, name, _no_proc(getattr(module, name)))
