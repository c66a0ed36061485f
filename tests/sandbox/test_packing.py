"""Archives of what an agent makes of its files: packed, read by the host, and unpacked, they are as they were."""

from __future__ import annotations

import io
import os
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.errors import FilesNotCaptured
from agentgym.sandbox.guest import archive, packing
from agentgym.sandbox.host.snapshots import snapshot_of
from agentgym.sandbox.host.trees import changes_of, merged

MIB = 2**20
# what is written where, in a file of the given size
SPARSE = st.tuples(
    st.integers(0, 3 * MIB),
    st.lists(st.tuples(st.integers(0, 3 * MIB), st.binary(min_size=1, max_size=9000)), max_size=4),
)


@contextmanager
def folder(parent: str = "/dev/shm"):
    """An empty folder with the roots of a sandbox, on a file system that knows holes, as the working directory."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory(dir=parent) as path:
        os.chdir(path)
        try:
            for root in archive.ROOTS:
                os.mkdir(root)
            yield Path(path)
        finally:
            os.chdir(before)


def packed() -> bytes:
    out = io.BytesIO()
    packing.pack(out, changes=False)
    return out.getvalue()


@settings(max_examples=40, deadline=None)
@given(SPARSE)
def test_a_file_with_holes_comes_back_and_has_the_id_of_the_same_file_without(sparse):
    size, pieces = sparse
    with folder():
        with open("work/a", "wb") as file:
            for at, piece in pieces:
                file.seek(at)
                file.write(piece)
            file.truncate(size)
        content, stream = Path("work/a").read_bytes(), packed()
        Path("work/a").write_bytes(content)
        assert snapshot_of(packed(), "test").id == snapshot_of(stream, "test").id
    with folder():
        archive.unpack(io.BytesIO(stream), as_layer=False)
        assert Path("work/a").read_bytes() == content


def test_holes_take_no_space_in_a_stream_and_none_after_it():
    with folder():
        with open("work/a", "wb") as file:
            file.truncate(64 * MIB)
            file.write(b"x")
        stream = packed()
        assert len(stream) < 10_000
    with folder():
        assert archive.unpack(io.BytesIO(stream), as_layer=False) < 30_000
        status = os.stat("work/a")
        assert (status.st_size, status.st_blocks) == (64 * MIB, 8)


def test_a_file_with_two_names_is_one_file_again_also_in_merged_layers():
    with folder():
        Path("tmp/first").write_bytes(b"content")
        os.link("tmp/first", "tmp/second")
        stream = packed()
        assert stream.count(b"content") == 1
    assert merged([stream], lowest=True).count(b"content") == 1
    for data in (stream, merged([stream, stream], lowest=True)):
        with folder():
            archive.unpack(io.BytesIO(data), as_layer=False)
            assert os.path.samefile("tmp/first", "tmp/second")
            Path("tmp/third").write_bytes(b"content")
            third = os.stat("tmp/third")
            entries = snapshot_of(packed(), "test").entries
            assert entries[b"tmp/first"] == entries[b"tmp/second"]
            assert third.st_nlink == 1


def test_a_second_name_outlives_the_first_in_merged_layers():
    """By hand: a layer holds one file under two names, the next one removes the first of them."""
    with folder():
        Path("tmp/first").write_bytes(b"content")
        os.link("tmp/first", "tmp/second")
        lower = packed()
    root = next(line for line in lower.split(b"\n") if b'"p":"tmp"' in line) + b"\n"
    both = merged([lower, root + b'{"p":"tmp/first","t":"w"}\n'], lowest=True)
    assert [change.path for change in changes_of(both)] == [b"tmp", b"tmp/second", b"work"]
    assert both.count(b"content") == 1


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (b'{"l":"work/b","m":420,"p":"work/a","t":"h","u":0}', "which is not a file that came before it"),
        (b'{"l":"/etc/passwd","m":420,"p":"work/a","t":"h","u":0}', "which is not a file that came before it"),
        (b'{"m":420,"p":"work/a","t":"h","u":0}', "has an invalid link target"),
        (b'{"m":420,"n":4096,"p":"work/a","s":2,"t":"f","u":0}', "fields other than"),
        (b'{"m":420,"n":5000,"p":"work/a","s":1,"t":"f","u":0}\n\xff', "has more data blocks than its size allows"),
        (b'{"m":420,"n":9007199254740992,"p":"work/a","s":1,"t":"f","u":0}\n', "too early"),
    ],
)
def test_streams_that_lie_about_links_and_holes_are_refused(header, words):
    stream = b'{"m":493,"p":"work","t":"d","u":0}\n' + header + (b"" if b"\n" in header else b"\n")
    with pytest.raises(ValueError, match=words):
        changes_of(stream)
    with folder(), pytest.raises(ValueError, match=words):
        archive.unpack(io.BytesIO(stream), as_layer=False)


def test_the_host_hashes_no_more_zeros_than_it_wants_to():
    claim = b'{"m":493,"p":"work","t":"d","u":0}\n{"m":420,"n":9007199254740992,"p":"work/a","s":1,"t":"f","u":0}\n'
    with pytest.raises(FilesNotCaptured, match="counting holes"):
        changes_of(claim + bytes(100), most_bytes=MIB)


def test_modes_that_were_changed_on_the_way_are_put_back_also_after_an_error():
    with folder() as top:
        os.makedirs("work/closed/inner")
        deep = os.getcwd()
        os.chdir("work/closed/inner")
        for _ in range(30):
            os.mkdir("d" * 200)
            os.chdir("d" * 200)
        os.chdir(deep)
        os.chmod("work/closed", 0)
        with pytest.raises(OSError, match="4095 bytes"):
            packed()
        assert os.stat(top / "work/closed").st_mode & 0o777 == 0
        os.chmod("work/closed", 0o700)
