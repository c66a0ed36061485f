"""Makes the whole file system of a container writable: an overlay of the image and a bounded tmpfs becomes its root.

The guest does this as the container's root with CAP_SYS_ADMIN, which it gives up before any agent code runs. It runs on
a Python of its own, so that nothing an agent writes is ever imported by it.
"""

from __future__ import annotations

import os
import stat

from . import archive, jobs, kernel, seccomp, syscalls
from .root import ETC, PROGRAMS

_MS_MOVE = 8192
_FLAGS = {"nosuid": kernel.MS_NOSUID, "nodev": kernel.MS_NODEV, "noexec": kernel.MS_NOEXEC}
_KERNEL_FOLDERS = ("/proc", "/dev", "/sys")
_WRITABLE = ("/dev/pts", "/dev/shm")


def enter(files: str, layers: list[int], visible: tuple[str, ...], capabilities: tuple[int, ...]) -> int:
    """Mount the overlay, and make it the root of this process. Return a descriptor of the folder with the changes.

    Args:
        files: the folder of the tmpfs. layers: descriptors of the archives of a snapshot, the lowest first.
        visible: folders of the guest that the new root has too. capabilities: those of an agent's process.
    Raises: OSError naming what cannot be mounted.
    """
    overlay = f"{files}/merged"
    lower = ["/"]  # its own files only: none of what is mounted below it
    for name in ("seed", *(f"layer{number}" for number in range(len(layers)))):
        os.mkdir(f"{files}/{name}", 0o755)
        lower.insert(0, f"{files}/{name}")
    for name in ("etc", *map(os.fsdecode, archive.ROOTS)):
        os.mkdir(f"{files}/seed/{name}", 0o755)
    with open(f"{files}/seed/etc/hosts", "w", encoding="ascii") as file:
        file.write(ETC["hosts"])
    for number, descriptor in enumerate(layers):
        _unpack(descriptor, f"{files}/layer{number}", capabilities)
    for name in ("changes", "index", "merged", "shm"):
        os.mkdir(f"{files}/{name}", 0o755)
    options = f"lowerdir={':'.join(lower)},upperdir={files}/changes,workdir={files}/index,userxattr,xino=on"
    kernel.mount("overlay", overlay, "overlay", kernel.MS_NOSUID | kernel.MS_NODEV, options)
    changes = os.open(f"{files}/changes", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    for top, mode in archive.ROOTS.items():
        os.chmod(f"{overlay}/{os.fsdecode(top)}", mode)
    os.chmod(f"{files}/shm", 0o1777)
    _bind(f"{files}/shm", "/dev/shm")
    for path in (*_KERNEL_FOLDERS, *visible, *([PROGRAMS] if os.path.isdir(PROGRAMS) else [])):
        _bind(path, overlay + path)
    _hide_files_of_root(f"{overlay}/proc")
    _make_read_only(overlay)
    os.chdir(overlay)
    kernel.mount(".", "/", None, _MS_MOVE)  # not pivot_root, which Docker's filter of system calls denies
    os.chroot(".")
    os.chdir("/")
    return changes


def _hide_files_of_root(folder: str) -> None:
    """Cover what only user 0 may read in /proc, such as slabinfo and vmallocinfo, by /dev/null."""
    for name in os.listdir(folder):
        mode = 0 if name.isdecimal() else os.lstat(f"{folder}/{name}").st_mode
        if stat.S_ISREG(mode) and not mode & stat.S_IROTH:
            kernel.mount("/dev/null", f"{folder}/{name}", None, kernel.MS_BIND)


def _make_read_only(overlay: str) -> None:
    """Make the folders of the kernel in the overlay read-only: user 0 may write there without any capability.

    Those outside cannot be: the guest has a file of /proc open for writing.
    """
    with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as file:
        mounts = [line.split()[1:4:2] for line in file]
    for path, options in mounts:
        inside = path[len(overlay) :] if path.startswith(f"{overlay}/") else ""
        if inside in _WRITABLE or not any(inside == top or inside.startswith(f"{top}/") for top in _KERNEL_FOLDERS):
            continue
        flags = sum(_FLAGS.get(option, 0) for option in options.split(","))
        kernel.mount(None, path, None, kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | flags)


def _bind(source: str, target: str) -> None:
    folder = ""
    for name in target[1:].split("/"):
        folder += f"/{name}"
        _make_folder(folder)
    kernel.mount(source, target, None, kernel.MS_BIND | kernel.MS_REC)


def _make_folder(path: str) -> None:
    """Make a folder, unless it is there. Raises: NotADirectoryError for a link, which could lead out of the image."""
    try:
        os.mkdir(path, 0o755)
    except FileExistsError:
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            raise NotADirectoryError(f"{path} of the image is not a folder") from None


def _unpack(descriptor: int, folder: str, keep: tuple[int, ...]) -> None:
    """Unpack an archive, which may be hostile, into a layer, in a child with no more rights than an agent's process.

    Raises: OSError if it does not fit.
    """
    pid = os.fork()
    if pid == 0:
        with jobs.never_returning():
            syscalls.execute(
                syscalls.drop_privileges(kernel.filter_at(seccomp.program(as_root=True)), keep=keep, inherit=keep)
            )
            os.lseek(descriptor, 0, os.SEEK_SET)
            with open(descriptor, "rb", closefd=False) as source:
                archive.unpack(source, as_layer=True, folder=folder)
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    if status:
        raise OSError(
            "the files of the snapshot cannot be unpacked; if they do not fit, give the spec more disk_mib or inodes"
        )
