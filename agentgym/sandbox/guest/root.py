"""The file tree that every sandbox sees: only the programs and Python of the host or of an image, read-only.

The spawner builds it once, in its own mount namespace, and moves into it. Each sandbox starts from a copy of that
namespace and adds its private parts: writable directories, /proc, terminals.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from typing import Any

from . import kernel

STAGE = "/tmp"  # any directory will do: it is a mount point in a private mount namespace
HOST = "/.host"
PACKAGES = "/packages"
PROGRAMS = "/.agentgym/programs"  # agent programs, each in a folder
IMAGES = "/.agentgym/images"  # unpacked images, for sandboxes with a writable root; only the spawner sees them
LIBRARY = "/.agentgym/python"  # the host's standard library of Python, for the guest of a writable root
GUEST = "/.agentgym/guest"  # this code, as an image's own Python sees it
MOUNT_POINTS = ("proc", "dev", "sys", "work", "tmp", GUEST[1:])  # directories that an unpacked image must have
AGENT_ID = 1000

_READ_ONLY = kernel.MS_RDONLY | kernel.MS_NOSUID | kernel.MS_NODEV
_SYSTEM_DIRECTORIES = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}
ETC = {
    "passwd": "root:x:0:0:root:/:/bin/sh\nagent:x:1000:1000:agent:/work:/bin/sh\n"
    "nobody:x:65534:65534:nobody:/:/bin/false\n",
    "group": "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
    "hostname": "sandbox\n",
    "resolv.conf": "",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}
ETC_OF_HOST = ("ld.so.cache", "alternatives", "localtime", "ssl/certs", "pki/ca-trust/extracted")


def enter(config: dict[str, Any]) -> None:
    """Build the tree and make it this process's root. The host's tree stays visible under `HOST` until `leave_host`.

    Args:
        config: `interpreter`: path of the Python binary; `library`: the lib directory of its prefix;
            `hidden`: directories to show empty; `packages`: pairs of source path and name under /packages;
            `programs`: source folders to show under PROGRAMS; `images`: folder to show as IMAGES, or "".
    """
    kernel.mount(None, "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("tmpfs", STAGE, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "size=4m,nr_inodes=4096,mode=0755")
    os.mkdir(STAGE + HOST, 0o700)
    kernel.pivot_root(STAGE, STAGE + HOST)
    os.chdir("/")
    for name in ("proc", "dev", "etc", "work", "tmp", "var", "root", "usr"):
        os.makedirs(f"/{name}", exist_ok=True)
    kernel.mount(f"{HOST}/proc", "/proc", None, kernel.MS_BIND | kernel.MS_REC)
    os.symlink("/tmp", "/var/tmp")
    _show_programs()
    _show_python(config)
    _show_agent_programs("", {os.path.basename(folder): HOST + folder for folder in config["programs"]})
    if config["images"]:
        os.makedirs(IMAGES)
        kernel.bind(HOST + config["images"], IMAGES)
        os.makedirs(LIBRARY)
        kernel.bind(os.path.dirname(os.__file__), LIBRARY)
        _import_from(LIBRARY)
    _make_devices(f"{HOST}/dev", "/dev")
    _make_etc()


def enter_image(image: str, guest: str, programs: list[str]) -> None:
    """Build the tree of an unpacked image at `STAGE`, beside the host's. `move_into_image` makes it the root.

    Args:
        image: folder of the unpacked tree, which contains MOUNT_POINTS. guest: folder of this code.
        programs: folders to show under PROGRAMS.
    """
    sources = [
        os.open(path, os.O_PATH | os.O_DIRECTORY) for path in (image, guest, *programs)
    ]  # opened first, because they may lie below STAGE
    tree, code, *folders = (f"/proc/self/fd/{descriptor}" for descriptor in sources)
    kernel.mount(None, "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount(tree, STAGE, None, kernel.MS_BIND)
    for name in MOUNT_POINTS:
        if not stat.S_ISDIR(os.lstat(f"{STAGE}/{name}").st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), f"/{name} of the image")
    kernel.set_mount(STAGE, kernel.MOUNT_ATTR_RDONLY | kernel.MOUNT_ATTR_NOSUID | kernel.MOUNT_ATTR_NODEV)
    if programs:
        own = f"{STAGE}{os.path.dirname(GUEST)}"
        kernel.mount("tmpfs", own, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "size=64k,mode=0755")
        os.mkdir(STAGE + GUEST)
        _show_agent_programs(STAGE, dict(zip(map(os.path.basename, programs), folders)))  # noqa: B905  Python 3.9
    kernel.bind(code, STAGE + GUEST)
    if programs:
        kernel.mount(None, own, None, kernel.MS_REMOUNT | kernel.MS_BIND | _READ_ONLY)
    _show_processes(f"{STAGE}/proc")
    kernel.mount("tmpfs", f"{STAGE}/dev", "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "size=64k,mode=0755")
    _make_devices("/dev", f"{STAGE}/dev")
    kernel.mount(None, f"{STAGE}/dev", None, kernel.MS_REMOUNT | kernel.MS_BIND | _READ_ONLY)
    for descriptor in sources:
        os.close(descriptor)


def _show_processes(target: str) -> None:
    """Mount a /proc that shows an image's Python only its own processes.

    An unprivileged user may not mount such a /proc; then the host's is bound instead.
    """
    try:
        flags = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
        kernel.mount("proc", target, "proc", flags, "hidepid=invisible")
    except PermissionError:
        kernel.mount("/proc", target, None, kernel.MS_BIND | kernel.MS_REC)


def move_into_image() -> None:
    """Make the tree at `STAGE` the root, and detach the host's."""
    os.chdir(STAGE)
    kernel.pivot_root(".", ".")  # the host's root is now mounted over the new one
    kernel.detach(".")
    os.chdir("/")


def leave_host() -> None:
    """Detach the host's file tree, and make the sandbox's own root read-only."""
    kernel.detach(HOST)
    os.rmdir(HOST)
    kernel.mount(None, "/", None, kernel.MS_REMOUNT | kernel.MS_BIND | _READ_ONLY)


def _import_from(library: str) -> None:
    """Let this interpreter import the rest of its standard library from another folder."""
    before = os.path.dirname(os.__file__)
    sys.path[:] = [library, f"{library}/lib-dynload"]
    for module in list(sys.modules.values()):
        if hasattr(module, "__path__"):
            module.__path__ = [path.replace(before, library, 1) for path in module.__path__]
    sys.path_importer_cache.clear()


def _show_programs() -> None:
    kernel.bind(f"{HOST}/usr", "/usr")
    for name in _SYSTEM_DIRECTORIES:
        source = f"{HOST}/{name}"
        if os.path.islink(source):
            os.symlink(os.readlink(source), f"/{name}")
        elif os.path.isdir(source):
            os.mkdir(f"/{name}")
            kernel.bind(source, f"/{name}")


def _show_agent_programs(tree: str, folders: dict[str, str]) -> None:
    for name, folder in folders.items():
        os.makedirs(f"{tree}{PROGRAMS}/{name}", exist_ok=True)
        kernel.bind(folder, f"{tree}{PROGRAMS}/{name}")


def _show_python(config: dict[str, Any]) -> None:
    interpreter, library = config["interpreter"], config["library"]
    if not interpreter.startswith("/usr/"):
        os.makedirs(os.path.dirname(interpreter), exist_ok=True)
        _bind_file(HOST + interpreter, interpreter)
        for name in ("python", "python3"):
            os.symlink(os.path.basename(interpreter), f"{os.path.dirname(interpreter)}/{name}")
    if not library.startswith("/usr/"):
        os.makedirs(library, exist_ok=True)
        kernel.bind(HOST + library, library)
    for directory in config["hidden"]:
        if os.path.isdir(directory):
            kernel.mount("tmpfs", directory, "tmpfs", _READ_ONLY, "size=4k")
    os.mkdir(PACKAGES)
    for source, name in config["packages"]:
        if os.path.isdir(HOST + source):
            os.makedirs(f"{PACKAGES}/{name}", exist_ok=True)
            kernel.bind(HOST + source, f"{PACKAGES}/{name}")
        else:
            _bind_file(HOST + source, f"{PACKAGES}/{name}")


def _make_devices(host: str, target: str) -> None:
    for name in _DEVICES:
        _touch(f"{target}/{name}")
        kernel.bind(f"{host}/{name}", f"{target}/{name}", read_only=False)
    for name, link in _DEVICE_LINKS.items():
        os.symlink(link, f"{target}/{name}")
    os.mkdir(f"{target}/pts")
    os.mkdir(f"{target}/shm")


def _make_etc() -> None:
    for name, text in ETC.items():
        with open(f"/etc/{name}", "w", encoding="utf-8") as file:
            file.write(text)
    for name in ETC_OF_HOST:
        _show_etc(name)
    for name in configured_entries():  # reads links of /etc/alternatives, which is visible by now
        if not os.path.exists(f"/etc/{name}"):
            _show_etc(name)


def _show_etc(name: str) -> None:
    source = f"{HOST}/etc/{name}"
    if os.path.isdir(source):
        os.makedirs(f"/etc/{name}")
        kernel.bind(source, f"/etc/{name}")
    elif os.path.isfile(source) and not os.path.islink(source):
        _bind_file(source, f"/etc/{name}")


def _bind_file(source: str, target: str) -> None:
    _touch(target)
    kernel.bind(source, target)


def _touch(path: str) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))


def configured_entries(usr: str = "/usr") -> list[str]:
    """Return the names of the entries of /etc to which the homes of toolchains link, sorted.

    Debian's Java, Maven and R link from /usr into /etc. A link in /usr/bin that leads into a directory, such as
    /usr/lib/jvm/NAME/bin/java, shows that the directory is a toolchain's home.

    Only links in a home and in its direct subdirectories count: they lead to the directories that hold the rest.
    """
    homes = {home for link in _links(f"{usr}/bin") if (home := _home(link, usr))}
    targets = {os.readlink(link) for home in homes for link in _links_near(home)}
    return sorted({target.split("/")[2] for target in targets if target.startswith("/etc/")})


def _home(link: str, usr: str) -> str | None:
    directory, _ = os.path.split(os.path.realpath(link))
    home, name = os.path.split(directory)
    return home if name == "bin" and home.startswith(f"{usr}/") and home != f"{usr}/local" else None


def _links_near(home: str) -> Iterator[str]:
    yield from _links(home)
    try:
        directories = [entry.path for entry in os.scandir(home) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return
    for directory in directories:
        yield from _links(directory)


def _links(directory: str) -> Iterator[str]:
    try:
        with os.scandir(directory) as entries:
            yield from (entry.path for entry in entries if entry.is_symlink())
    except OSError:
        return
