"""Layers as archives alone: what the host works out about a tree is what unpacking the layers gives."""

from __future__ import annotations

import io
import os
import tempfile
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.errors import FilesNotCaptured
from agentgym.sandbox.guest import archive, packing
from agentgym.sandbox.host import trees
from agentgym.sandbox.host.snapshots import MAX_LAYERS, layer_of, snapshot_of
from agentgym.sandbox.host.trees import changes_of, id_of, merged, tree_of

NAMES = (b"a", b"b", b"a-b", b"a0", b"\xff", "ü".encode())
PATHS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map(tuple)
KINDS = st.sampled_from(("f", "l", "w", "d", "opaque"))


@st.composite
def layers(draw) -> bytes:
    """Any archive of changes: names that meet those of other layers, in every combination of kinds."""
    kinds = draw(st.dictionaries(PATHS, KINDS, max_size=8))
    for path in list(kinds):
        for count in range(len(path)):  # what is above it is a directory, whatever was drawn for it
            if kinds.get(path[:count]) != "opaque":
                kinds[path[:count]] = "d"
    modes, contents = st.sampled_from((0o644, 0o400, 0o755)), st.binary(max_size=4)
    return record((b"work",), "d") + b"".join(
        record((b"work", *path), kinds[path], draw(modes), draw(contents)) for path in sorted(kinds) if path
    )


def record(parts, kind, mode=0o755, content=b"") -> bytes:
    header = {"p": archive.encode(b"/".join(parts)), "t": kind, "m": mode, "u": 0}
    if kind == "opaque":
        header.update(t="d", o=1)
    elif kind == "f":
        header["n"] = len(content)
    elif kind == "l":
        header["l"] = "target" + content.hex()
    elif kind == "w":
        del header["m"], header["u"]
    return archive.header_line(header).encode() + b"\n" + (content if kind == "f" else b"")


@contextmanager
def fresh_folder():
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for root in archive.ROOTS:
                os.mkdir(root)
            yield
        finally:
            os.chdir(before)


def unpacked(data_of_layers) -> bytes:
    """Unpack layers one over the other, and pack what is there."""
    with fresh_folder():
        for data in data_of_layers:
            archive.unpack(io.BytesIO(data), as_layer=False)
        out = io.BytesIO()
        packing.pack(out, changes=False)
        return out.getvalue()


def tree_id(data_of_layers) -> str:
    tree = tree_of({}, changes_of(unpacked([])))
    for data in data_of_layers:
        tree = tree_of(tree, changes_of(data))
    return id_of(tree)


@settings(max_examples=60, deadline=None)
@given(st.lists(layers(), min_size=1, max_size=4))
def test_the_id_worked_out_from_layers_is_that_of_the_unpacked_files(stack):
    folder = unpacked(stack)
    assert tree_id(stack) == snapshot_of(folder, "test").id
    assert snapshot_of(unpacked([folder]), "test").id == snapshot_of(folder, "test").id


@settings(max_examples=60, deadline=None)
@given(layers(), st.lists(layers(), min_size=2, max_size=4))
@pytest.mark.thorough
def test_layers_merged_into_one_do_what_they_did_one_by_one(lowest, stack):
    expected = tree_id([lowest, *stack])
    assert tree_id([lowest, merged(stack, lowest=False)]) == expected
    base = merged([unpacked([lowest]), *stack], lowest=True)
    assert tree_id([base]) == expected
    assert not any(change.header["t"] == "w" or change.header.get("o") for change in changes_of(base))


def test_a_merged_layer_keeps_hiding_what_its_parts_hid():
    """By hand: the second layer removes d and the third makes it anew, so the first one's d/old stays hidden."""
    folder = record((b"work",), "d")
    first = folder + record((b"work", b"d"), "d") + record((b"work", b"d", b"old"), "f", 0o644, b"1")
    second = folder + record((b"work", b"d"), "w")
    third = folder + record((b"work", b"d"), "d") + record((b"work", b"d", b"new"), "f", 0o644, b"2")
    both = merged([second, third], lowest=False)
    assert [(c.path, c.header.get("o")) for c in changes_of(both)] == [
        (b"work", None),
        (b"work/d", 1),
        (b"work/d/new", None),
    ]
    assert sorted(tree_of(tree_of({}, changes_of(first)), changes_of(both))) == [b"work", b"work/d", b"work/d/new"]


def test_the_lowest_layer_survives_flattening_unless_the_changes_outgrow_it():
    folder = record((b"work",), "d")
    below = snapshot_of(folder + record((b"work", b"big"), "f", 0o644, bytes(4 << 20)), "test")
    lowest = below.layers[0]
    for number in range(MAX_LAYERS):
        below = snapshot_of(folder + record((b"work", b"%d" % number), "f", 0o644, b"x"), "test", below)
    assert (len(below.layers), below.layers[0]) == (2, lowest)
    for number in range(MAX_LAYERS):
        below = snapshot_of(folder + record((b"work", b"%d" % number), "f", 0o644, bytes(400_000)), "test", below)
    assert len(below.layers) <= MAX_LAYERS
    assert lowest not in below.layers
    assert len(below.entries) == MAX_LAYERS + 2
    for _ in range(3):
        below = snapshot_of(folder + record((b"work", b"big"), "f", 0o644, bytes(5 << 20)), "test", below)
        below = snapshot_of(folder + record((b"work", b"big"), "f", 0o644, b"x" * (5 << 20)), "test", below)
    assert below.size_bytes < 9 << 20, "what is hidden is thrown away"


def test_a_guest_cannot_make_the_host_keep_more_records_than_files_are_allowed():
    data = record((b"work",), "d") + b"".join(record((b"work", b"%05d" % n), "l") for n in range(1000))
    assert len(snapshot_of(data, "test", most_files=1001).entries) == 1001
    with pytest.raises(FilesNotCaptured, match="more than 1000 files"):
        snapshot_of(data, "test", most_files=1000)


def test_nested_folders_that_hide_what_is_below_cost_the_host_one_look_at_it(monkeypatch):
    """A guest that was taken over may send a thousand of them above ten thousand files: that took seven seconds."""
    looked_at = []
    find = trees._range_below

    def noted(paths, path):
        first, end = find(paths, path)
        looked_at.append(end - first)
        return first, end

    monkeypatch.setattr(trees, "_range_below", noted)
    chain = [(b"work", *[b"a"] * depth) for depth in range(50)]
    files = [(*chain[-1], b"%04d" % number) for number in range(200)]
    below = record(chain[0], "d") + b"".join(record(parts, "d") for parts in chain[1:])
    below += b"".join(record(parts, "f") for parts in files)
    hiding = record(chain[0], "d") + b"".join(record(parts, "opaque") for parts in chain[1:])
    tree = tree_of({}, changes_of(below))
    assert len(tree_of(tree, changes_of(hiding))) == len(chain)
    assert len(changes_of(merged([below, hiding], lowest=True))) == len(chain)
    assert sum(looked_at) <= 2 * (len(chain) + len(files))


def test_a_layer_is_named_by_every_byte_that_counts():
    first, second = record((b"work",), "d"), record((b"work",), "d").replace(b'"u":0', b'"u":1')
    assert layer_of(first).digest != layer_of(second).digest
    assert layer_of(first).digest == layer_of(bytes(first)).digest
