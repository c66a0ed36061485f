"""Archives of images, honest and hostile: layers lie over each other as they should, and nothing leaves the tree."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import stat
import struct
import tarfile
from pathlib import Path

import pytest

from agentgym.errors import SandboxUnavailable
from agentgym.sandbox.rootfs import tree as image_tree
from agentgym.sandbox.rootfs.archive import first_names, unpack_archive
from agentgym.sandbox.rootfs.store import prepare_rootfs
from agentgym.sandbox.rootfs.tree import ImageError, RootfsTree, agent_mode


def entry(name: str, content: bytes | None = None, *, link: str = "", kind: bytes = tarfile.REGTYPE, **fields):
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.size = kind, link, len(content or b"")
    for field, value in fields.items():
        setattr(member, field, value)
    return member, content


def directory(name: str, **fields):
    return entry(name, kind=tarfile.DIRTYPE, **{"mode": 0o755, **fields})


def symlink(name: str, target: str):
    return entry(name, link=target, kind=tarfile.SYMTYPE)


def hardlink(name: str, target: str):
    return entry(name, link=target, kind=tarfile.LNKTYPE)


def tar(*entries) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for member, content in entries:
            archive.addfile(member, io.BytesIO(content) if content is not None else None)
    return out.getvalue()


@pytest.fixture
def unpacked(tmp_path):
    """A function from layers to the tree they make, beside a file that none of them may touch."""
    (tmp_path / "outside").write_text("untouched")
    (tmp_path / "tree").mkdir()

    def unpack(*layers: bytes) -> Path:
        tree = RootfsTree(tmp_path / "tree")
        try:
            for layer in layers:
                unpack_archive(tree, io.BytesIO(layer))
            tree.finish()
        finally:
            tree.close()
            assert (tmp_path / "outside").read_text() == "untouched"
            assert sorted(os.listdir(tmp_path)) == ["outside", "tree"]
        return tmp_path / "tree"

    return unpack


def test_a_tree_holds_what_its_archive_says(unpacked):
    root = unpacked(
        tar(
            directory("a"),
            entry("a/file", b"content", mode=0o4755, mtime=1234),
            symlink("link", "/a/file"),
            hardlink("second", "a/file"),
            entry("./deep/er/x", b""),
            entry("ünï\udcff", b"named"),
            entry("device", kind=tarfile.CHRTYPE),
            entry("pipe", kind=tarfile.FIFOTYPE),
        )
    )
    assert sorted(os.listdir(root)) == ["a", "deep", "link", "second", "ünï\udcff"]
    status = (root / "a/file").stat()
    assert ((root / "a/file").read_bytes(), status.st_mode & 0o7777, status.st_mtime) == (b"content", 0o555, 1234)
    assert status.st_ino == (root / "second").stat().st_ino
    assert os.readlink(root / "link") == "/a/file"


def test_permissions_are_those_the_agent_has():
    """User 1000 gets its own, its group's, or everyone's; and nobody writes."""
    assert agent_mode(0o640, 1000, 0) == 0o444
    assert agent_mode(0o640, 0, 1000) == 0o444
    assert agent_mode(0o640, 0, 0) == 0o000
    assert agent_mode(0o7777, 0, 0) == 0o555
    assert agent_mode(0o711, 0, 0) == 0o111


def test_a_path_through_a_link_stays_in_the_tree_as_on_the_machine_it_is_for(unpacked):
    """The common case, /bin being a link to usr/bin, and the hostile ones look alike to an archive."""
    root = unpacked(
        tar(directory("usr/bin"), symlink("bin", "/usr/bin"), symlink("up", "../../../../usr"), symlink("top", "/")),
        tar(entry("bin/sh", b"shell"), entry("up/x", b"x"), entry("top/outside", b"inside")),
    )
    assert (root / "usr/bin/sh").read_bytes() == b"shell"
    assert (root / "usr/x").read_bytes() == b"x"
    assert (root / "outside").read_bytes() == b"inside"
    assert os.path.islink(root / "bin")


def test_whiteouts_hide_what_lower_layers_have_and_nothing_of_their_own(unpacked):
    root = unpacked(
        tar(*(entry(name, b"1") for name in ("a/old", "b/old", "b/sub/old", "gone/x", "f"))),
        tar(
            entry("b/sub/new", b"2"),
            entry("b/new", b"2"),
            entry("b/.wh..wh..opq", b""),
            entry(".wh.gone", b""),
            entry("a/new", b"2"),
            entry("a/.wh.new", b""),
            entry("a/.wh.old", b""),
            entry(".wh.never", b""),
            entry(".wh..wh.plnk", b""),
            directory("f"),
            entry("f/x", b"2"),
        ),
    )
    files = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    assert files == ["a/new", "b/new", "b/sub/new", "f/x"]


def test_later_entries_replace_earlier_ones_of_any_kind(unpacked):
    root = unpacked(
        tar(entry("x", b"file"), directory("y"), entry("y/in", b""), symlink("z", "y"), entry("w/in", b"")),
        tar(directory("x"), entry("y", b"file"), directory("z"), symlink("w", "x")),
    )
    assert stat.S_ISDIR(os.lstat(root / "x").st_mode)
    assert (root / "y").read_bytes() == b"file"
    assert stat.S_ISDIR(os.lstat(root / "z").st_mode)
    assert os.readlink(root / "w") == "x"


HOSTILE = {
    "dots": [entry("../outside", b"hit")],
    "dots below": [entry("a/../../outside", b"hit")],
    "a whiteout of dots": [entry(".wh...", b"")],
    "a whiteout of the parent": [entry("a/.wh...", b"")],
    "the root as a file": [entry(".", b"hit")],
    "the root as a link": [symlink("./", "/etc")],
    "a hard link out": [hardlink("x", "../outside")],
    "a hard link without a target": [hardlink("x", "/no/such/file")],
    "a hard link to the root": [hardlink("x", "/")],
    "a hard link to a folder": [directory("d"), hardlink("x", "d")],
    "below a link that leads nowhere": [symlink("l", "/nowhere"), entry("l/x", b"hit")],
    "below a link to itself": [symlink("l", "l"), entry("l/x", b"hit")],
    "below a file": [entry("f", b""), entry("f/x", b"hit")],
    "nested too deeply": [entry("d/" * 500 + "x", b"hit")],
    "too long": [entry("n" * 300, b"hit")],
    "below the kernel's links": [symlink("l", "/proc/self/root"), entry("l/tmp/x", b"hit")],
}


@pytest.mark.parametrize("entries", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_entry_is_refused(unpacked, entries):
    with pytest.raises(ImageError):
        unpacked(tar(*entries))


def test_absolute_names_lie_in_the_tree(unpacked):
    root = unpacked(tar(entry("/etc/x", b"in"), symlink("out", "../outside"), entry("out", b"replaces the link")))
    assert (root / "etc/x").read_bytes() == b"in"
    assert (root / "out").read_bytes() == b"replaces the link"


def with_size(archive: bytes, size: bytes) -> bytes:
    """The first header's size field replaced, and its checksum made right."""
    header = bytearray(archive[:512])
    header[124:136] = size.ljust(12, b"\0")
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + archive[512:]


def test_sizes_that_lie_are_refused(unpacked):
    plain = tar(entry("f", b"x" * 600))
    for size in (b"77777777777", b"\xff" * 12, b"\xff" * 11 + b"\x00", b"\x80" + struct.pack(">11s", b"\x7f" * 11)):
        with pytest.raises(ImageError):
            unpacked(with_size(plain, size))


def test_a_header_that_would_fill_memory_is_refused(unpacked):
    member, _ = entry("f", b"x")
    member.pax_headers = {"comment": "x" * (3 << 20)}
    with pytest.raises(ImageError, match="claims"):
        unpacked(tar((member, b"x")))


def test_endless_headers_are_refused(unpacked):
    chain = b"".join(
        tarfile.TarInfo._create_pax_generic_header({"a": "b"}, tarfile.XHDTYPE, "utf-8") for _ in range(3000)
    )
    with pytest.raises(ImageError):
        unpacked(chain + tar(entry("f", b"")))


def test_a_time_that_is_none_is_no_harm(unpacked):
    member, _ = entry("f", b"x")
    member.pax_headers = {"mtime": "nan"}
    other, _ = entry("g", b"x")
    other.pax_headers = {"mtime": "-1e300"}
    assert (unpacked(tar((member, b"x"), (other, b"x"))) / "f").stat().st_mtime == 0


def test_an_archive_cut_short_is_refused(unpacked):
    archive = tar(entry("f", b"x" * 5000), entry("g", b"x"))
    for length in (700, 5800, 6000):
        with pytest.raises(ImageError):
            unpacked(archive[:length])
    for data in (gzip.compress(archive), bz2.compress(archive), lzma.compress(archive)):
        assert (unpacked(data) / "f").stat().st_size == 5000
        with pytest.raises(ImageError):
            unpacked(data[:-20])


def test_more_than_an_image_may_hold_is_refused(unpacked, monkeypatch):
    monkeypatch.setattr(image_tree, "MAX_ENTRIES", 20)
    with pytest.raises(ImageError, match="more than 20 files"):
        unpacked(tar(*(entry(str(number), b"") for number in range(30))))
    monkeypatch.setattr(image_tree, "MAX_ENTRIES", 1000)


def test_an_archive_unpacks_to_a_multiple_of_its_own_size_at_most(tmp_path, monkeypatch):
    """A bomb within a bomb, too: the limit is of the file that was named."""
    monkeypatch.setattr(image_tree, "_FREE_BYTES", 1 << 20)
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    bomb, folder = tmp_path / "bomb.tar.gz", tmp_path / "folder"
    bomb.write_bytes(gzip.compress(tar(entry("usr/bomb", bytes(3 << 20)))))
    with pytest.raises(SandboxUnavailable, match="50 times its packed size"):
        prepare_rootfs(str(bomb))
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.name == "bomb"]
    (folder / "usr").mkdir(parents=True)
    with open(folder / "usr/hole", "wb") as file:
        file.truncate(3 << 20)
    with pytest.raises(SandboxUnavailable, match="50 times its packed size"):
        prepare_rootfs(str(folder))
    (folder / "usr/hole").write_bytes(b"x" * (3 << 20))
    assert prepare_rootfs(str(folder)).root.is_dir()


def test_what_is_no_archive_says_what_would_be(tmp_path):
    (tmp_path / "x").write_bytes(b"PK\x03\x04" + bytes(2000))
    with pytest.raises(ImageError, match="Give a tar"):
        first_names(tmp_path / "x")
    (tmp_path / "x").write_bytes(b"\x28\xb5\x2f\xfd" + bytes(2000))
    with pytest.raises(ImageError, match="zstd"):
        first_names(tmp_path / "x")
