"""Folders of pages and of applications on their way into the sandbox."""

from __future__ import annotations

import io
import os
import zipfile

import pytest

from agentgym import Task, TaskError
from agentgym.sandboxes.gui.folders import folder_archive
from agentgym.sandboxes.gui.guest.own_app import unpack
from agentgym.sandboxes.gui.parameters import WebParameters


def names_in(archive):
    return set(zipfile.ZipFile(io.BytesIO(archive)).namelist())


def test_an_application_arrives_with_its_programs_links_and_empty_folders(tmp_path):
    source = tmp_path / "source"
    (source / "pkg/lib").mkdir(parents=True)
    (source / "uploads").mkdir()
    (source / "bin").mkdir()
    (source / "pkg/run").write_text("#!/bin/sh")
    (source / "pkg/run").chmod(0o700)
    (source / "plain.txt").write_text("plain")
    (source / "bin/run").symlink_to("../pkg/run")
    (source / "lib").symlink_to(source / "pkg/lib")
    (tmp_path / "outside.txt").write_text("outside")
    (source / "followed.txt").symlink_to("../outside.txt")
    (source / "nowhere").symlink_to("missing")
    unpack(zipfile.ZipFile(io.BytesIO(folder_archive(str(source), links=True))), str(tmp_path / "copy"))
    copy = tmp_path / "copy"
    assert os.readlink(copy / "bin/run") == "../pkg/run"
    assert os.access(copy / "bin/run", os.X_OK)
    assert not os.access(copy / "plain.txt", os.X_OK)
    assert os.readlink(copy / "lib") == "pkg/lib"
    assert (copy / "uploads").is_dir()
    assert (copy / "followed.txt").read_text() == "outside"
    assert not (copy / "followed.txt").is_symlink()
    assert not (copy / "nowhere").exists()


def test_pages_behind_links_are_served(tmp_path):
    (tmp_path / "one.html").write_text("one")
    (tmp_path / "two.html").symlink_to("one.html")
    assert zipfile.ZipFile(io.BytesIO(folder_archive(str(tmp_path)))).read("two.html") == b"one"


@pytest.mark.parametrize("site", ["folder", "server"])
def test_a_folder_may_have_any_names_and_is_packed_again_when_it_has_changed(tmp_path, site):
    (tmp_path / "flight").mkdir()
    (tmp_path / "flight/fares.html").write_text("99")
    parameters = {"site": site, "folder": str(tmp_path), "page": "flight/fares.html"}
    if site == "server":
        parameters["command"] = ["serve"]
    task = Task("t", "agentgym/web-v2", "Look.", parameters=parameters)
    [first] = WebParameters.of(task).archives()
    assert "flight/fares.html" in names_in(first)
    (tmp_path / "flight/fares.html").write_text("120")
    [second] = WebParameters.of(task).archives()
    assert zipfile.ZipFile(io.BytesIO(second)).read("flight/fares.html") == b"120"
    assert WebParameters.of(task).archives()[0] is second, "it is packed once"


def test_a_folder_that_is_too_large_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("agentgym.sandboxes.gui.folders._MAX_ARCHIVE", 1 << 20)
    (tmp_path / "noise").write_bytes(os.urandom(2 << 20))
    with pytest.raises(TaskError, match="is larger than 1 MiB, packed"):
        folder_archive(str(tmp_path))
