"""Opening below a directory step by step does what the kernel's own openat2 does, where the kernel has it."""

from __future__ import annotations

import ctypes
import errno
import os

import pytest

from agentgym.sandbox.guest import kernel
from agentgym.sandbox.guest.openat_beneath import open_beneath_stepwise


@pytest.fixture
def tree(tmp_path):
    """A directory with honest and dishonest links; and a secret beside it."""
    (tmp_path / "secret").write_text("secret")
    inside = tmp_path / "inside"
    (inside / "a" / "b").mkdir(parents=True)
    (inside / "file").write_text("0")
    (inside / "a" / "b" / "file").write_text("1")
    for name, target in {
        "to_file": "file",
        "to_dir": "a/b",
        "a/up": "../file",
        "a/out": "../../secret",
        "absolute": str(inside / "file"),
        "loop": "loop",
        "dangling": "nothing",
        "a/b/dots": "../../a/./b/../b/file",
        "root": "/",
    }.items():
        (inside / name).symlink_to(target)
    descriptor = os.open(inside, os.O_PATH | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


def outcome(open_one) -> bytes | int:
    try:
        descriptor = open_one()
    except OSError as error:
        return error.errno
    try:
        return os.read(descriptor, 100) if not os.path.isdir(f"/proc/self/fd/{descriptor}") else b"directory"
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(
    "path",
    [
        "file",
        "a/b/file",
        "./a//b/./file",
        "a/../file",
        "a/b/../../file",
        "..",
        "../secret",
        "a/../../secret",
        "to_file",
        "to_dir/file",
        "a/up",
        "a/out",
        "absolute",
        "root/etc/passwd",
        "loop",
        "dangling",
        "a/b/dots",
        "a",
        ".",
        "none",
        "file/x",
        "to_dir",
        "a/none/file",
        "to_file/x",
    ],
)
def test_each_path_ends_as_with_openat2(tree, path):
    expected = outcome(lambda: kernel.open_beneath(tree, path, os.O_RDONLY))
    assert outcome(lambda: open_beneath_stepwise(tree, path, os.O_RDONLY, 0, same_device=False)) == expected


def test_files_are_made_below_but_not_through_a_link_out(tree, tmp_path):
    flags = os.O_WRONLY | os.O_CREAT
    os.close(open_beneath_stepwise(tree, "to_dir/new", flags, 0o600, same_device=True))
    assert (tmp_path / "inside/a/b/new").stat().st_size == 0
    (tmp_path / "inside" / "trap").symlink_to("../made")
    with pytest.raises(OSError, match="cross-device") as caught:
        open_beneath_stepwise(tree, "trap", flags, 0o600, same_device=True)
    assert caught.value.errno == errno.EXDEV
    assert not (tmp_path / "made").exists()


def test_another_file_system_is_outside_if_so_asked():
    root = os.open("/", os.O_PATH | os.O_DIRECTORY)
    try:
        os.close(open_beneath_stepwise(root, "proc/version", os.O_RDONLY, 0, same_device=False))
        with pytest.raises(OSError, match="cross-device"):
            open_beneath_stepwise(root, "proc/version", os.O_RDONLY, 0, same_device=True)
    finally:
        os.close(root)


def test_no_descriptor_is_left_behind(tree):
    before = len(os.listdir("/proc/self/fd"))
    for path in ("a/b/file", "a/out", "loop", "none/x", "a/b/dots", ".."):
        outcome(lambda path=path: open_beneath_stepwise(tree, path, os.O_RDONLY, 0, same_device=True))
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_kernel_is_asked_again_where_a_mount_elsewhere_disturbed_it(tmp_path, monkeypatch):
    """openat2 answers EAGAIN on a path with `..` while anything on the machine is mounted or renamed."""
    (tmp_path / "file").write_text("inside")
    answers = iter([errno.EAGAIN] * 3)

    class Disturbed:
        def syscall(self, *arguments):
            if (number := next(answers, None)) is None:
                return real.syscall(*arguments)
            ctypes.set_errno(number)
            return -1

    real = kernel._libc
    monkeypatch.setattr(kernel, "_libc", Disturbed())
    directory = os.open(tmp_path, os.O_RDONLY)
    descriptor = kernel.open_beneath(directory, "file", os.O_RDONLY)
    assert os.read(descriptor, 10) == b"inside"
    answers = iter([errno.EAGAIN] * 1_000)
    with pytest.raises(BlockingIOError):
        kernel.open_beneath(directory, "file", os.O_RDONLY)
    os.close(descriptor)
    os.close(directory)
