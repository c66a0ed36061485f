"""task.toml, task.yaml and docker-compose.yaml are read whole, and what one sandbox cannot do is named."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from task_folders import write_folders

from agentgym.errors import TaskError
from agentgym.sandboxes.code.terminal import folder as folder_module
from agentgym.sandboxes.code.terminal.build_context import copied_files
from agentgym.sandboxes.code.terminal.build_steps import Copy, ImageConfig
from agentgym.sandboxes.code.terminal.compose_file import read_compose
from agentgym.sandboxes.code.terminal.folder import TerminalFolder
from agentgym.sandboxes.code.terminal.harbor_config import read_config

CONFIG = """
schema_version = "1.4"
source = "a set"
artifacts = ["/app/out"]

[task]
name = "acme/one"

[metadata]
tags = ["a", "b"]

[agent]
timeout_sec = 120.5
user = "agent"

[verifier]
timeout_sec = 60
env = { MODE = "${MODE:-strict}", COST = "a $5 bill" }

[solution]
env = { KEY = "value" }

[environment]
docker_image = "acme/base:1"
build_timeout_sec = 300
cpus = 2
memory = "1.5G"
storage_mb = 4096
gpus = 0
mcp_servers = []
workdir = "/data"
network_mode = "allowlist"
allowed_hosts = ["example.org", "*.example.com", "192.0.2.0/24"]
env = { LEVEL = 3 }
"""


def test_a_task_toml_is_read_whole():
    assert read_config(CONFIG) == {
        "build_s": 300,
        "memory_mib": 1536,
        "disk_mib": 4096,
        "cpu_cores": 2,
        "image": "acme/base:1",
        "workdir": "/data",
        "environment": {"LEVEL": "3"},
        "has_network": True,
        "pays_last_step": False,
        "steps": [
            {
                "name": "",
                "agent_s": 120.5,
                "verifier_s": 60,
                "verifier_environment": {"MODE": "strict", "COST": "a $5 bill"},
                "solution_environment": {"KEY": "value"},
                "least_rewards": {},
            }
        ],
        "tags": ("a", "b"),
    }


STEPS = """
multi_step_reward_strategy = "final"
[[steps]]
name = "first"
min_reward = 1
[steps.verifier]
env = { MODE = "own" }
[[steps]]
name = "second"
min_reward = { reward = 0.5, speed = 2 }
[steps.agent]
timeout_sec = 7
network_mode = "no-network"
[steps.verifier]
timeout_sec = 8
"""


def test_each_step_has_its_own_settings_beside_those_of_the_task():
    config = read_config(STEPS + CONFIG)
    assert [step["name"] for step in config["steps"]] == ["first", "second"]
    assert [step["agent_s"] for step in config["steps"]] == [120.5, 7]
    assert [step["verifier_s"] for step in config["steps"]] == [600, 8], "Harbor's default, not the task's limit"
    assert [step["verifier_environment"]["MODE"] for step in config["steps"]] == ["own", "strict"]
    assert [step["least_rewards"] for step in config["steps"]] == [{"reward": 1}, {"reward": 0.5, "speed": 2}]
    assert (config["pays_last_step"], config["has_network"]) == (True, False)


def test_settings_that_are_missing_leave_the_defaults(tmp_path):
    folder = write_folders(tmp_path, "counted") / "counted"
    (folder / "task.toml").write_text("")
    task = TerminalFolder.read(folder)
    [step] = task.steps
    assert (step.agent_s, task.memory_mib, task.cpu_cores, task.environment, task.workdir) == (900, 2048, 1, {}, "")


@pytest.mark.parametrize(
    ("text", "has_network"),
    [
        ("", True),
        ("[environment]\nallow_internet = false", False),
        ("[environment]\nallow_internet = false\nnetwork_mode = 'public'", True),
        ("[environment]\nnetwork_mode = 'no-network'", False),
        ("[environment]\nnetwork_mode = 'no-network'\n[agent]\nnetwork_mode = 'allowlist'", True),
    ],
)
def test_a_task_may_take_the_network_from_the_agent(text, has_network):
    assert read_config(text)["has_network"] is has_network


def test_the_files_of_all_steps_together_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(folder_module, "MAX_STEPS_BYTES", 1_000)
    folder = write_folders(tmp_path, "greeting") / "greeting"
    names = [str(number) for number in range(20)]
    (folder / "task.toml").write_text("".join(f"[[steps]]\nname = '{name}'\n" for name in names))
    for name in names:
        (folder / "steps" / name).mkdir(parents=True)
        (folder / "steps" / name / "instruction.md").write_text("Go on.")
    with pytest.raises(TaskError, match="the files of its steps have more than 1000 bytes"):
        TerminalFolder.read(folder)


WRONG = {
    "is not valid TOML": "version =",
    "steps must be tables": "steps = 3\n",
    "each of its steps needs a name of its own, .* not ''": "[[steps]]\n",
    "needs a name of its own, .* not 'A'": "[[steps]]\nname = 'a'\n[[steps]]\nname = 'A'\n",
    "needs a name of its own, .* not '../a'": "[[steps]]\nname = '../a'\n",
    "task.toml has 65 steps": "".join(f"[[steps]]\nname = '{number}'\n" for number in range(65)),
    "min_reward must be a number": "[[steps]]\nname = 'a'\nmin_reward = 'all'\n",
    "multi_step_reward_strategy must be mean or final": "multi_step_reward_strategy = 'best'\n",
    "asks for an accelerator": "[environment]\ngpus = 1\n",
    "asks for MCP servers": "[[environment.mcp_servers]]\nname = 'a'\nurl = 'http://a'\n",
    "environment.os is 'windows'": "[environment]\nos = 'windows'\n",
    "environment_mode must be shared or separate": "[verifier]\nenvironment_mode = 'both'\n",
    "asks for commands in services": "verifier.environment_mode = 'separate'\n[[verifier.collect]]\ncommand = 'a'\n",
    "asks for /x of the service 'db'": "artifacts = [{source = '/x', service = 'db'}]\n[verifier.environment]\n",
    "artifacts must be paths, or tables": "artifacts = [3]\n[verifier.environment]\n",
    "exclude of the artifact x must be a list": "artifacts = [{source = 'x', exclude = 'y'}]\n[verifier.environment]\n",
    "sets KEY to this host's SECRET, but a task gets no variables": "[verifier]\nenv = { KEY = '${SECRET}' }\n",
    "network_mode must be one of public": "[environment]\nnetwork_mode = 'some'\n",
    "timeout_sec must be a number above 0, not 'soon'": "[agent]\ntimeout_sec = 'soon'\n",
    "memory must be a size such as 2G": "[environment]\nmemory = 'much'\n",
    "agent must be a table": "agent = 3\n",
    "docker_image must be a text": "[environment]\ndocker_image = 3\n",
}


@pytest.mark.parametrize("says", WRONG)
def test_what_a_task_toml_cannot_have_is_named(says):
    with pytest.raises(TaskError, match=says):
        read_config(WRONG[says])


COMPOSE = """
x-common: &common
  restart: always
services:
  client:
    <<: *common
    build:
      context: image
      dockerfile: Dockerfile.task
      target: first
      args: [VERSION=3]
    image: ${T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME}
    container_name: ${T_BENCH_TASK_DOCKER_CLIENT_CONTAINER_NAME}
    command: ["sh", "-c", "sleep infinity"]
    working_dir: /srv
    ports: ["80:80"]
    environment:
      - TEST_DIR=${T_BENCH_TEST_DIR}
      - PRICE=$$5 ${UNSET:-and more}
    volumes:
      - ${T_BENCH_TASK_LOGS_PATH}:${T_BENCH_CONTAINER_LOGS_PATH}
      - data:/var/lib/data
"""


def test_the_one_service_of_a_compose_file_says_how_the_image_is_built_and_run(tmp_path):
    folder = write_folders(tmp_path, "old-style") / "old-style"
    (folder / "image").mkdir()
    (folder / "image" / "Dockerfile.task").write_text(
        "FROM debian:12 AS first\nARG VERSION\nRUN echo $VERSION\nCOPY word /word\nFROM first\nRUN false\n"
    )
    (folder / "image" / "word").write_text("a")
    (folder / "docker-compose.yaml").write_text(COMPOSE)
    (folder / "Dockerfile").unlink()
    service = read_compose(COMPOSE, "docker-compose.yaml", {"image/Dockerfile.task": (b"FROM a", 0o644)})
    assert (service.context, service.target, service.image, service.workdir) == ("image", "first", "", "/srv")
    assert service.environment == {"TEST_DIR": "/tests", "PRICE": "$5 and more"}
    assert service.arguments == {"VERSION": "3"}


def test_files_of_the_own_folder_that_are_mounted_are_copied(tmp_path):
    folder = write_folders(tmp_path, "old-style") / "old-style"
    (folder / "conf").mkdir()
    (folder / "conf" / "a b.ini").write_text("a")
    volumes = ["./:/app", "./conf/a b.ini:/etc/a b.ini:ro", "./runs:/runs", "${T_BENCH_TASK_LOGS_PATH}:/logs"]
    (folder / "docker-compose.yaml").write_text(json.dumps({"services": {"a": {"build": ".", "volumes": volumes}}}))
    task = TerminalFolder.read(folder)
    [stage] = task.dockerfile.needed()
    copies = [step for step in stage.steps(ImageConfig())[0] if isinstance(step, Copy)][-2:]
    assert [step.target for step in copies] == ["/app", "/etc/a b.ini"]
    brought = copied_files(copies[0], task.context, into_folder=True)
    assert "/app/conf/a b.ini" in brought
    assert not {path for path in brought if "/tests/" in path or "run-tests" in path or "solution" in path}


def test_tests_are_in_the_image_only_where_the_dockerfile_names_them(tmp_path):
    folder = write_folders(tmp_path, "old-style") / "old-style"
    plain = "FROM debian:12\nCOPY . /app/\n"
    (folder / "Dockerfile").write_text(plain)
    assert not {path for path in TerminalFolder.read(folder).context if path.startswith(("tests/", "run-tests"))}
    (folder / "Dockerfile").write_text(f"{plain}COPY ./tests/ /app/tests/\nCOPY run-tests.sh /app/\n")
    assert {"tests/marker", "run-tests.sh"} <= TerminalFolder.read(folder).context.keys()
    (folder / "Dockerfile").write_text(f"{plain}COPY solution.sh /oracle/\n")
    with pytest.raises(TaskError, match="copies its solution into the image"):
        TerminalFolder.read(folder)


REFUSED = {
    "is not valid YAML": "services: [",
    "has no services": "version: 3",
    r"has 2 services \(main, db\)": "services: {main: {}, db: {image: postgres}}",
    "must be a table": "services: {main: 3}",
    "privileged cannot be had in a sandbox": "services: {main: {privileged: true}}",
    "its command starts 'nginx'": "services: {main: {command: nginx}}",
    "its entrypoint starts 'sh -c service": "services: {main: {entrypoint: [sh, -c, service ssh start]}}",
    "it mounts ../data, a folder of the host; COPY": "services: {main: {volumes: ['../data:/data']}}",
    "it mounts ./, a folder of the host; COPY": "services: {main: {image: a, volumes: ['.:/data']}}",
    "it mounts /etc,": "services: {main: {volumes: [{type: bind, source: /etc, target: /logs/../etc}]}}",
    "build.context is ../.., but must lie beside": "services: {main: {build: ../..}}",
    "there is no file Dockerfile": "services: {main: {build: .}}",
    "build.ssh is not supported": "services: {main: {build: {ssh: default}}}",
    "environment must be a list": "services: {main: {environment: a}}",
    "image must be a text": "services: {main: {image: [a]}}",
    "has more than 16 aliases": "a: &a {b: 1}\nservices: [" + "*a, " * 17 + "]",
}


@pytest.mark.parametrize("says", REFUSED)
def test_what_a_compose_file_cannot_have_is_named(says):
    with pytest.raises(TaskError, match=says):
        read_compose(REFUSED[says], "docker-compose.yaml", {})


@given(st.one_of(st.text(), st.lists(st.sampled_from(COMPOSE.splitlines(keepends=True))).map("".join)))
def test_any_text_is_read_as_a_compose_file_or_refused(text):
    with contextlib.suppress(TaskError):
        read_compose(text, "docker-compose.yaml", {})


@given(st.lists(st.sampled_from([*CONFIG.splitlines(), *WRONG.values()])).map("\n".join))
def test_any_text_is_read_as_a_task_toml_or_refused(text):
    with contextlib.suppress(TaskError):
        read_config(text)


def test_a_task_yaml_is_read_as_yaml(tmp_path):
    folder = write_folders(tmp_path, "old-style") / "old-style"
    (folder / "task.yaml").write_text(
        "descriptions:\n- key: base\n  description: |\n    Say yes.\n- {key: hard, description: x}\n"
        "difficulty: hard # as they say\nmax_agent_timeout_sec: 30\n"
    )
    task = TerminalFolder.read(folder)
    [step] = task.steps
    assert (step.instruction, step.agent_s, task.tags) == ("Say yes.", 30, ("hard",))


@pytest.mark.parametrize("name", ["task.toml", "instruction.md", "environment", "tests", "solution"])
def test_links_of_a_folder_lead_to_nothing_of_the_host(name, tmp_path):
    folder = write_folders(tmp_path / "in", "greeting") / "greeting"
    (folder / name).rename(tmp_path / "outside")
    (folder / name).symlink_to(tmp_path / "outside")
    with pytest.raises(TaskError, match=f"{name} is a link that leads out of the folder"):
        TerminalFolder.read(folder)
