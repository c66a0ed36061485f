"""Task folders whose images Docker's daemon builds, and which are played in its containers."""

from __future__ import annotations

import asyncio
import os
import sys
import tarfile
from contextlib import suppress
from dataclasses import replace

import pytest
from task_folders import folder_with_dockerfile, write_folders

import agentgym
from agentgym import Call, SandboxUnavailable, load
from agentgym.errors import TaskError
from agentgym.registry import load_reward
from agentgym.sandbox import DockerBackend
from agentgym.sandbox.rootfs import INDEX_FOLDER
from agentgym.sandbox.rootfs.python_image import write_python_image
from agentgym.sandboxes.code.terminal.bounded_build import BUILD_LABEL
from agentgym.sandboxes.code.terminal.daemon_build import build_by_daemon, with_indexes
from agentgym.sandboxes.code.terminal.dockerfile import parse_dockerfile
from agentgym.sandboxes.code.terminal.environment import submissions_in
from agentgym.sandboxes.code.terminal.folder import TerminalFolder

PROGRAMS = "sh bash cat chmod find head id ln ls mkdir printf readlink rm sed sleep stat test touch true yes"
BASE = f"agentgym-test/builds:{os.getpid()}"


def daemon():
    """A client of our own; close it."""
    import docker

    return docker.from_env()


pytestmark = [pytest.mark.needs_docker, pytest.mark.needs_namespaces]


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """The name of an image of the daemon; no package index of this host is reached. Removes what the tests build."""
    import docker.errors

    client, top = daemon(), tmp_path_factory.mktemp("docker-builds")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENTGYM_CACHE", str(top / "cache"))
        patch.setenv("PIP_CONFIG_FILE", os.devnull)
        patch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
        root = write_python_image(top / "root", sys.executable, programs=PROGRAMS, data=())
        (root / "data").mkdir()
        (root / "data" / "of-the-image.txt").write_text("was there\n")
        with tarfile.open(top / "root.tar", "w") as archive:
            archive.add(root, arcname=".")
        repository, _, tag = BASE.partition(":")
        changes = ["ENV PATH=/usr/local/bin:/usr/bin:/bin"]
        client.api.import_image(src=str(top / "root.tar"), repository=repository, tag=tag, changes=changes)
        yield BASE
    below = client.api.inspect_image(BASE)["Id"]
    for image in client.api.images(filters={"label": BUILD_LABEL}):  # other processes may test at the same time
        with suppress(docker.errors.NotFound):
            if any(layer["Id"] == below for layer in client.api.history(image["Id"])):
                client.api.remove_image(image["Id"], force=True)
    client.api.remove_image(BASE, force=True)
    client.close()


@pytest.fixture
def folder_of(base, tmp_path):
    """Returns a function: the task folder of a Dockerfile and the files beside it."""

    def write(steps: str, files: dict[str, bytes] | None = None, *, settings: str = "") -> TerminalFolder:
        dockerfile = steps if steps.startswith("FROM") else f"FROM {base}\n{steps}\n"
        return folder_with_dockerfile(tmp_path, dockerfile, files, settings=settings)

    return write


async def test_an_image_has_what_its_dockerfile_says_and_is_built_once(base, folder_of, capfd):
    folder = folder_of(
        f"FROM {base} AS tools\nRUN mkdir /out && printf one > /out/one\n"
        f"FROM {base}\nENV PLACE=/srv/place\nWORKDIR $PLACE\nCOPY a.txt data /copied/\nCOPY --from=tools /out /got\n"
        'RUN printf "$PLACE $PWD" > /where\nUSER 7\nENTRYPOINT ["/e"]\nCMD ["true"]\n',
        {"a.txt": b"A", "data/b.txt": b"B", "ignored": b"", ".dockerignore": b"ignored\n"},
    )
    image = await build_by_daemon(folder, [base])
    assert (image.config.workdir, image.config.entrypoint) == ("/srv/place", ("/e",))
    assert dict(image.config.environment)["PLACE"] == "/srv/place"
    assert "Docker daemon builds" in capfd.readouterr().err
    assert await build_by_daemon(folder, [base]) == image
    assert capfd.readouterr().err == ""
    backend = DockerBackend()
    try:
        spec = agentgym.SandboxSpec(image=image.digest, writable_root=True)
        sandbox = await backend.create(spec)
        command = f"cat /where /copied/a.txt /copied/b.txt /got/one; ls {INDEX_FOLDER} /copied/ignored 2> /dev/null"
        assert (await sandbox.exec(["sh", "-c", command])).text == "/srv/place /srv/placeABone"
    finally:
        await backend.close()


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (
            "RUN true\nRUN printf 'so and\\nso' >&2; exit 3",
            r"RUN printf .* of its Dockerfile.* ended with 3: so and\nso$",
        ),
        pytest.param(
            "RUN sleep 60",
            r"'RUN sleep 60' of its Dockerfile, built by Docker, did not end in 3 s",
            marks=pytest.mark.thorough,
        ),
        ("RUN yes | head -c 100000000 > /full", r"ended with 1|wrote more than 32 MiB"),
        pytest.param(
            "RUN for i in 1 2 3 4; do yes | head -c 20000000 > /full$i; done; sleep 60",
            "wrote more than 32 MiB",
            marks=pytest.mark.thorough,
        ),
        pytest.param(
            """RUN python3 -c "x = [bytearray(2**24) for _ in range(2**12)]" """,
            "was killed, for its memory",
            marks=pytest.mark.thorough,
        ),
        ("RUN no-such-program", "ended with 127"),
        ("COPY --chmod=700 Dockerfile /a", r"BuildKit.* built by agentgym, which can do that"),
        ("RUN <<EOF\ntrue\nEOF", r"refused by the daemon's builder, which is not BuildKit"),
        ("ADD http://files.test/a.txt /a", r"line 2 of its Dockerfile adds http://files.test/a.txt"),
        (
            """RUN python3 -c "import urllib.request as u; u.urlopen('http://files.test/a')" """,
            r"The network refused files.test. Allow .*AGENTGYM_BUILD_ALLOW",
        ),
        ("""RUN python3 -c "import socket; socket.create_connection(('172.17.0.1', 22), 1)" """, "unreachable"),
    ],
    ids=["code", "time", "one file", "disk", "memory", "program", "chmod", "heredoc", "url", "network", "host"],
)
async def test_a_step_that_fails_is_named_with_its_last_lines(base, folder_of, monkeypatch, capfd, steps, message):
    monkeypatch.setenv("AGENTGYM_BUILD_DISK_MIB", "32")
    seconds = 20 if "wrote" in message or "python3" in steps else 3
    folder = folder_of(steps, settings=f"[environment]\nbuild_timeout_sec = {seconds}\n")
    for _ in range(2):
        with pytest.raises(TaskError, match=message):
            await build_by_daemon(folder, [base])
    assert capfd.readouterr().err.count("Docker daemon builds") <= 1, "what has failed is not tried again at once"


async def test_an_image_that_the_daemon_lacks_is_not_pulled(folder_of):
    with pytest.raises(SandboxUnavailable, match="has no image 'nobody/nothing:1'"):
        await build_by_daemon(folder_of("FROM nobody/nothing:1\nRUN true\n"), ["nobody/nothing:1"])


async def test_a_cancelled_build_leaves_no_container(base, folder_of):
    client = daemon()
    try:
        folder = folder_of("RUN printf begun && sleep 50\n")
        building = asyncio.create_task(build_by_daemon(folder, [base]))
        while not any("sleep 50" in row["Command"] for row in client.api.containers()):
            await asyncio.sleep(0.1)
            assert not building.done()
        building.cancel()
        with pytest.raises(asyncio.CancelledError):
            await building
        for _ in range(100):
            await asyncio.sleep(0.1)
            if not any("sleep 50" in row["Command"] for row in client.api.containers(all=True)):
                break
        else:
            pytest.fail("the container of the build is still there")
    finally:
        client.close()


def test_indexes_reach_the_commands_of_each_stage_and_leave_nothing():
    dockerfile = parse_dockerfile(
        "# escape=\\\nARG V=1\nFROM a AS one\nRUN x \\\n  y\nFROM b\nCOPY q /q\nFROM one\nENV A=1\n\nUSER ada\nRUN z"
    )
    lines = with_indexes(dockerfile, {"PIP_INDEX_URL": "http://i.test"}).split("\n")
    begin = ["ARG PIP_INDEX_URL", f"COPY .agentgym-indexes {INDEX_FOLDER}"]
    clean = f'RUN ["sh", "-c", "rm -rf {INDEX_FOLDER} || true"]'
    assert lines == [
        *("# escape=\\", "ARG V=1", "FROM a AS one", *begin, "RUN x \\", "  y", clean),
        *(
            "FROM b",
            "COPY q /q",
            "FROM one",
            *begin,
            "ENV A=1",
            "",
            "USER ada",
            "RUN z",
            "USER root",
            clean,
            "USER ada",
        ),
        "",
    ]


RIGHT = {
    "greeting": ["printf 'Hello, Ada!' > /app/hello.txt"],
    "counted": ["printf 'import sys\\nprint(len(sys.stdin.read().split()))' > count.py"],
}
CHMOD = "COPY greet /usr/local/bin/greet\nRUN chmod 755 /usr/local/bin/greet"
FORGING = 'printf \'open("/logs/verifier/reward.json", "w").write("1")\' > count.py'


@pytest.fixture(scope="module")
def tasks(base, tmp_path_factory):
    """The tasks of the folders, built and played by Docker, by id."""
    top = write_folders(tmp_path_factory.mktemp("folders") / "in", *RIGHT)
    for path in top.rglob("Dockerfile"):
        lines = path.read_text().splitlines()
        text = "".join(f"{f'FROM {base}' if line.startswith('FROM') else line}\n" for line in lines)
        path.write_text(text.replace("COPY --chmod=755 greet /usr/local/bin/greet", CHMOD))
    return {task.id: task for task in load("importers", "harbor")(top, build="docker")["held_out"]}


async def earned(task, *commands: str) -> tuple[float, float]:
    environment = agentgym.make(task.environment)
    try:
        await environment.reset(task.public(), seed=0)
        assert environment.backend.name == "docker"
        for command in commands:
            assert (await environment.call(Call("bash", {"command": command}))).ok
        result = await environment.call(Call("done", {}))
    finally:
        await environment.close()
    components = await load_reward("terminal_verifier").score(task, str(result.content).partition(": ")[2])
    return components["success"], components["forged"]


@pytest.mark.parametrize(
    ("name", "commands", "expected"),
    [
        ("greeting", RIGHT["greeting"], (1, 0)),
        ("greeting", [], (0, 0)),
        pytest.param("counted", RIGHT["counted"], (1, 0), marks=pytest.mark.thorough),
        ("counted", [FORGING], (0, 1)),
    ],
    ids=["right", "nothing", "right too", "forged"],
)
async def test_an_episode_in_containers_earns_what_it_earns_in_sandboxes(tasks, name, commands, expected):
    assert await earned(tasks[name], *commands) == expected


@pytest.mark.thorough
async def test_steps_and_tests_with_an_image_of_their_own_are_played_in_containers(base, tmp_path):
    folder = write_folders(tmp_path, "greeting") / "greeting"
    (folder / "environment/Dockerfile").write_text(f"FROM {base}\nWORKDIR /app\n")
    (folder / "task.toml").write_text(
        "artifacts = ['out']\n[verifier.environment]\n[[steps]]\nname = 'a'\nmin_reward = 1\n[[steps]]\nname = 'b'\n"
    )
    for name in ("a", "b"):
        step = folder / "steps" / name
        (step / "tests").mkdir(parents=True)
        (step / "instruction.md").write_text(f"Write {name} to out/{name}.")
        (step / "tests/Dockerfile").write_text(f"FROM {base}\nCOPY test.sh /tests/\n")
        (step / "tests/test.sh").write_text(
            f'[ "$(cat /app/out/{name})" = {name} ] && [ ! -e /app/other ] && echo 1 > /logs/verifier/reward.txt\n'
        )
    [task] = load("importers", "harbor")(folder, build="docker")["held_out"]
    environment = agentgym.make(task.environment)
    results = []
    try:
        await environment.reset(task.public(), seed=0)
        for name in ("a", "b"):
            await environment.call(Call("bash", {"command": f"mkdir -p out; echo {name} > out/{name}; touch other"}))
            results.append(await environment.call(Call("done", {})))
    finally:
        await environment.close()
    assert "Write b to out/b." in results[0].content
    verifier = load_reward("terminal_verifier")
    for index, submission in enumerate(submissions_in(results)[0]):
        assert (await verifier.score(task, submission, index))["success"] == 1


async def test_who_builds_plays(tasks):
    own = replace(tasks["greeting"], parameters={**tasks["greeting"].parameters, "build": "agentgym"})
    environment = agentgym.make(own.environment, backend="docker")
    with pytest.raises(TaskError, match=r"Import it again by .*--option build=docker"):
        await environment.reset(own.public(), seed=0)
    await environment.close()
    folder = tasks["greeting"].parameters["folder"]
    with pytest.raises(TaskError, match="build must be one of agentgym, docker"):
        load("importers", "harbor")(folder, build="podman")
    with pytest.raises(TaskError, match="docker tag x"):
        load("importers", "harbor")(folder, build="docker", image="x")
