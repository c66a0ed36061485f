"""Agent programs that are installed for sandboxes: pinned in the cache, read-only inside, on any image."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from rootfs import assemble

from agentgym.errors import SandboxUnavailable
from agentgym.sandbox import rootfs as rootfs_store
from agentgym.sandbox.docker.backend import DockerBackend
from agentgym.sandbox.limits import SandboxSpec
from agentgym.sandbox.namespaces.backend import NamespacesBackend
from agentgym.sandbox.rootfs.programs import installed_programs

CODE = "import sys\ndef main():\n    print('hello from', sys.argv[1])\n    return 3\n"


@pytest.fixture
def greeter(tmp_path, monkeypatch) -> str:
    """Offer two versions of a package `greeter`, with a command, where pip looks. Returns: the name of the newer."""
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    for version in ("1.0", "1.1"):
        write_wheel(tmp_path, "greeter", version, "[console_scripts]\ngreet = greeter:main\n")
    write_wheel(tmp_path, "mute", "1.0", "")
    return "pypi:greeter@1.1"


def write_wheel(folder: Path, name: str, version: str, entry_points: str) -> None:
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": CODE,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": entry_points,
    }
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{path},,\n" for path in files))


async def check_greeting(backend, spec: SandboxSpec) -> None:
    """Run the command in a sandbox, and try to change it there."""
    inside = rootfs_store.locate_program(spec.programs[0]).inside
    try:
        sandbox = await backend.create(spec)
        greeting = await sandbox.exec([f"{inside}/bin/greet", "here"])
        assert (greeting.exit_code, greeting.text) == (3, "hello from here\n"), greeting.stderr
        assert not (await sandbox.exec(["sh", "-c", f"echo x > {inside}/bin/greet"])).ok
        assert not (await sandbox.exec(["sh", "-c", f"echo x > {inside}/bin/new"])).ok
    finally:
        await backend.close()


def test_a_wheel_with_a_native_program_has_it_as_a_command(greeter, tmp_path):
    """As uv and ruff are packed: a binary among the wheel's scripts, and no entry point. Other scripts are left out."""
    write_wheel(tmp_path, "native", "1.0", "")
    with zipfile.ZipFile(tmp_path / "native-1.0-py3-none-any.whl", "a") as archive:
        archive.writestr("native-1.0.data/scripts/native", b"\x7fELF and more")
        archive.writestr("native-1.0.data/scripts/wrapper", b"#!python\n")
    program = rootfs_store.install_program("pypi:native")
    assert program.commands == ("native",)
    assert (program.folder / "bin" / "native").read_bytes() == b"\x7fELF and more"


def test_a_version_is_installed_once_and_the_newest_by_default(greeter):
    newest = rootfs_store.install_program("pypi:greeter")
    assert (newest.name, newest.commands) == (greeter, ("greet",))
    stamp = os.stat(newest.folder / "bin" / "greet").st_mtime_ns
    assert rootfs_store.install_program(greeter) == newest == rootfs_store.locate_program("pypi:greeter")
    assert os.stat(newest.folder / "bin" / "greet").st_mtime_ns == stamp
    older = rootfs_store.install_program("pypi:greeter@1.0")
    assert older.digest != newest.digest
    assert installed_programs() == ["pypi:greeter@1.0", greeter]
    with pytest.raises(SandboxUnavailable, match=r"Several versions.*greeter@1\.0, pypi:greeter@1\.1"):
        rootfs_store.locate_program("pypi:greeter")


NPM = """#!{python}
import json, os, sys
modules = os.path.join(sys.argv[sys.argv.index("--prefix") + 1], "node_modules")
for name, files in json.loads({packages!r}).items():
    for file, content in files.items():
        path = os.path.join(modules, name, file)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as stream:
            stream.write(content)
        os.chmod(path, 0o755)
os.makedirs(os.path.join(modules, ".bin"))
os.symlink("../agent/agent.js", os.path.join(modules, ".bin", "agent"))
"""


@pytest.mark.parametrize(
    ("scripts", "printed"), [({"postinstall": "node put.js"}, "native"), ({"test": "node test.js"}, "launcher")]
)
def test_a_native_program_is_found_without_running_the_install_script(scripts, printed, greeter, tmp_path, monkeypatch):
    optional = {"agent-linux-arm64": "1.0", "agent-linux-x64": "1.0", "agent-linux-x64-baseline": "1.0"}
    record = {"version": "1.0", "bin": {"agent": "agent.js"}, "scripts": scripts, "optionalDependencies": optional}
    packages = {
        "agent": {"package.json": json.dumps(record), "agent.js": "#!/bin/sh\necho launcher"},
        "agent-linux-x64": {"bin/agent": "#!/bin/sh\necho needs AVX2"},
        "agent-linux-x64-baseline": {"bin/agent": "#!/bin/sh\necho native"},
    }
    npm = tmp_path / "npm"
    npm.write_text(NPM.format(python=sys.executable, packages=json.dumps(packages)))
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    program = rootfs_store.install_program("npm:agent")
    assert subprocess.check_output([program.folder / "bin" / "agent"], text=True) == f"{printed}\n"


def test_a_command_that_would_be_written_outside_of_the_cache_is_refused(greeter, tmp_path, monkeypatch):
    escaped = tmp_path / "escaped"
    outside = os.path.relpath(escaped, tmp_path / "cache/programs/.scratch/root/bin")
    write_wheel(tmp_path, "sly", "1.0", f"[console_scripts]\n{outside} = sly:main\n")
    write_wheel(tmp_path, "slyer", "1.0", f"[console_scripts]\n{escaped} = slyer:main\n")
    record = {"version": "1.0", "bin": {str(escaped): "agent.js"}}
    npm = tmp_path / "npm"
    packages = {"agent": {"package.json": json.dumps(record), "agent.js": "#!/bin/sh"}}
    npm.write_text(NPM.format(python=sys.executable, packages=json.dumps(packages)))
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for name in ("pypi:sly", "pypi:slyer", "npm:agent"):
        with pytest.raises(SandboxUnavailable, match=r"not a plain file name|outside the scripts directory"):
            rootfs_store.install_program(name)
    assert not os.path.lexists(escaped)
    assert installed_programs() == []


def test_a_source_package_is_refused_before_its_build_script_runs(greeter, tmp_path):
    marker = tmp_path / "ran"
    with tarfile.open(tmp_path / "source-1.0.tar.gz", "w:gz") as archive:
        for file, text in {
            "setup.py": f"open({str(marker)!r}, 'w')\nimport setuptools\nsetuptools.setup()\n",
            "PKG-INFO": "Metadata-Version: 2.1\nName: source\nVersion: 1.0\n",
        }.items():
            entry = tarfile.TarInfo(f"source-1.0/{file}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    with pytest.raises(SandboxUnavailable, match="pip wheel"):
        rootfs_store.install_program("pypi:source")
    assert not marker.exists()


def test_an_install_that_another_process_has_finished_first_returns_what_is_there(greeter, monkeypatch):
    rename = Path.rename

    def rename_late(self, target):
        monkeypatch.setattr(Path, "rename", rename)
        other = rootfs_store.install_program("pypi:greeter")
        assert other.folder == target
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", rename_late)
    assert rootfs_store.install_program("pypi:greeter").name == greeter
    assert os.listdir(rootfs_store.locate_program(greeter).folder.parent) == ["pypi-greeter@1.1"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("greeter", "Write npm: or pypi:"),
        ("pypi:../../etc", "Write npm: or pypi:"),
        ("npm:-g", "Write npm: or pypi:"),
        ("npm:someone/repository", "Write npm: or pypi:"),
        ("pypi:greeter@-e", "Write npm: or pypi:"),
        ("pypi:unheard-of", "pip|python"),
        ("pypi:mute", "no command to start"),
    ],
)
def test_what_cannot_be_installed_leaves_nothing(greeter, name, words):
    with pytest.raises(SandboxUnavailable, match=words):
        rootfs_store.install_program(name)
    assert installed_programs() == []


def test_a_program_that_is_not_installed_names_the_command(greeter):
    with pytest.raises(SandboxUnavailable, match="agentgym sandbox program npm:@openai/codex"):
        rootfs_store.locate_program("npm:@openai/codex")


@pytest.mark.needs_namespaces
async def test_a_sandbox_on_the_hosts_programs_runs_it(greeter):
    await check_greeting(NamespacesBackend(), SandboxSpec(programs=(rootfs_store.install_program(greeter).name,)))


@pytest.mark.needs_namespaces
async def test_a_sandbox_on_an_image_runs_it(greeter, tmp_path):
    image = assemble(tmp_path / "image", sys.executable)
    name = rootfs_store.install_program(greeter).name
    await check_greeting(NamespacesBackend(), SandboxSpec(image=str(image), programs=(name,)))


@pytest.mark.needs_docker
async def test_a_container_has_it(greeter):
    name = rootfs_store.install_program(greeter).name
    await check_greeting(DockerBackend(), SandboxSpec(image="agentgym/base", programs=(name,)))
