"""The files for Slurm and Kubernetes: their syntax, their field names, and what the Slurm script starts, and when."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from agent_sandbox_schema import check_object

from agentgym import SandboxSpec
from agentgym.bridges.kubernetes import KubernetesBackend
from agentgym.bridges.kubernetes.streams import _port_of
from agentgym.cluster.ray_nodes import NICE_VARIABLE

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "cluster"

# Of the types of KubeRay, apis/ray/v1/rayjob_types.go and raycluster_types.go, without those of pods.
JOB = {
    "activeDeadlineSeconds",
    "backoffLimit",
    "rayClusterSpec",
    "submitterPodTemplate",
    "metadata",
    "clusterSelector",
    "submitterConfig",
    "managedBy",
    "deletionStrategy",
    "entrypoint",
    "runtimeEnvYAML",
    "jobId",
    "submissionMode",
    "entrypointResources",
    "entrypointNumCpus",
    "entrypointNumGpus",
    "ttlSecondsAfterFinished",
    "shutdownAfterJobFinishes",
    "suspend",
}
CLUSTER = {
    "headGroupSpec",
    "workerGroupSpecs",
    "rayVersion",
    "enableInTreeAutoscaling",
    "autoscalerOptions",
    "headServiceAnnotations",
    "suspend",
}
HEAD = {"serviceType", "headService", "enableIngress", "rayStartParams", "template"}
WORKERS = {
    "groupName",
    "replicas",
    "minReplicas",
    "maxReplicas",
    "numOfHosts",
    "rayStartParams",
    "template",
    "scaleStrategy",
    "suspend",
}
CONTAINER = {"name", "image", "env", "resources", "securityContext", "volumeMounts"}


def job() -> dict[str, Any]:
    yaml = pytest.importorskip("yaml", reason="PyYAML comes with the extra train")
    return yaml.safe_load((FOLDER / "kuberay.yaml").read_text())


def test_the_fields_of_the_ray_job_are_those_of_its_published_types():
    data = job()
    assert (data["apiVersion"], data["kind"]) == ("ray.io/v1", "RayJob")
    spec, cluster = data["spec"], data["spec"]["rayClusterSpec"]
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    for names, known in [(spec, JOB), (cluster, CLUSTER), (groups[0], HEAD), *((g, WORKERS) for g in groups[1:])]:
        assert set(names) <= known
    assert spec["submissionMode"] in ("K8sJobMode", "HTTPMode", "InteractiveMode")
    for group in groups:
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())  # a map of strings
        [container] = group["template"]["spec"]["containers"]
        assert set(container) <= CONTAINER
        variables = {row["name"]: row["value"] for row in container["env"]}
        assert variables[NICE_VARIABLE] == "0"
        mounted = {mount["name"] for mount in container.get("volumeMounts", ())}
        assert mounted == {volume["name"] for volume in group["template"]["spec"].get("volumes", ())}


@pytest.mark.parametrize("file", ["agent-sandbox.yaml", "agent-sandbox-direct.yaml"])
def test_the_warm_pool_is_what_agent_sandbox_publishes_and_holds_what_the_backend_puts_in_a_pod(file):
    yaml = pytest.importorskip("yaml", reason="PyYAML comes with the extra train")
    objects = {row["kind"]: row for row in yaml.safe_load_all((FOLDER / file).read_text())}
    template, pool = objects["SandboxTemplate"], objects["SandboxWarmPool"]
    check_object(template)
    check_object(pool)
    assert pool["spec"]["sandboxTemplateRef"]["name"] == template["metadata"]["name"]
    options = inspect.signature(KubernetesBackend).parameters
    assert options["pool"].default == pool["metadata"]["name"]
    [container] = template["spec"]["podTemplate"]["spec"]["containers"]
    assert set(container) <= CONTAINER | {"command", "ports", "readinessProbe"}
    if port := _port_of({"spec": template["spec"]["podTemplate"]["spec"]}):
        assert find_spec(container["command"][2])
        assert container["command"][3:] == ["--port", str(port)]
        [ingress] = template["spec"]["networkPolicy"]["ingress"]
        assert [entry["port"] for entry in ingress["ports"]] == [container["readinessProbe"]["tcpSocket"]["port"]]
        assert port == ingress["ports"][0]["port"]
    room_mib = 1024 * int(container["resources"]["limits"]["memory"].removesuffix("Gi"))
    assert room_mib > options["per_pod"].default * SandboxSpec().memory_mib
    subject, role = objects["RoleBinding"]["subjects"][0], objects["RoleBinding"]["roleRef"]
    assert objects[subject["kind"]]["metadata"]["name"] == subject["name"]
    assert objects[role["kind"]]["metadata"]["name"] == role["name"]


def test_the_ray_job_waits_for_as_many_nodes_as_it_has_pods():
    spec = job()["spec"]
    pods = 1 + sum(group["replicas"] for group in spec["rayClusterSpec"]["workerGroupSpecs"])
    assert f"machine.nodes={pods}" in spec["entrypoint"].split()
    settings = dict(re.findall(r"--set machine\.(\w+)=(\S+)", spec["entrypoint"]))
    check_settings(settings)


def check_settings(settings: dict[str, str]) -> None:
    """They are settings of a recipe."""
    from agentgym.training.recipe.hardware_section import HardwareSection

    quoted = "\n".join(f"{key} = {value if value.isdigit() else repr(value)}" for key, value in settings.items())
    assert HardwareSection.model_validate(tomllib.loads(quoted)).engine == "ray"


PROGRAM = """#!/bin/bash
echo "$(basename "$0") $*" >> "$LOG"
case "$(basename "$0") $*" in
    "scontrol show"*) printf 'a1\\na2\\na3\\n' ;;
    *"hostname --ip-address") echo '10.0.0.7 fd00::1' ;;
    "agentgym cluster status"*) grep 'ray start' "$LOG" | sed 's/.*/10.0.0.7  yes  4/' ;;  # those that have joined
    "srun"*"--block"* | "ray start"*) exec sleep 60 ;;
esac
"""


def stand_ins(folder: Path, *names: str) -> dict[str, str]:
    """Write programs that note how they are called. Returns: the environment variables in which they are called."""
    for name in names:
        (folder / name).write_text(PROGRAM)
        (folder / name).chmod(0o755)
    return os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "LOG": str(folder / "log")}


@pytest.mark.parametrize(("exists", "gpus"), [(False, None), (True, "8")])
def test_the_slurm_script_starts_a_head_and_the_others_and_trains_on_all_of_them(tmp_path, exists, gpus):
    """Programs of Slurm and ours are stand-ins that note how they are called."""
    subprocess.run(["bash", "-n", FOLDER / "slurm.sh"], check=True)
    if exists:
        (tmp_path / "runs" / "mine").mkdir(parents=True)
    job = {"SLURM_JOB_NAME": "mine", "SLURM_JOB_ID": "41234", "SLURM_JOB_NODELIST": "a[1-3]"}
    variables = (
        stand_ins(tmp_path, "srun", "scontrol", "agentgym") | job | ({"SLURM_GPUS_ON_NODE": gpus} if gpus else {})
    )
    command = ["bash", FOLDER / "slurm.sh", "my.toml"]
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    calls = (tmp_path / "log").read_text().splitlines()
    [head] = [call for call in calls if "--head" in call]
    assert "--nodelist=a1 ray start --head --port=21234" in head
    joining = [call for call in calls if "--address=10.0.0.7:21234" in call]
    assert sorted(re.search(r"--nodelist=(\w+)", call)[1] for call in joining) == ["a2", "a3"]
    train = calls[-1]
    launcher, command, words = train.rpartition("agentgym train ")
    assert command
    assert words.startswith("my.toml --out runs/mine " + ("--resume " if exists else "--set "))
    if gpus:
        assert launcher == (
            "srun --overlap --nodes=3 --ntasks-per-node=1 torchrun --nnodes=3 --nproc-per-node=8 --rdzv-id=41234 "
            "--rdzv-backend=c10d --rdzv-endpoint=10.0.0.7:21235 -m "
        )
    assert calls.index("agentgym cluster probe --address 10.0.0.7:21234") < calls.index(train)
    settings = dict(re.findall(r"--set machine\.(\w+)=(\S+)", train))
    assert settings == {"engine": "ray", "address": "10.0.0.7:21234", "nodes": "3"}
    check_settings(settings)


# Of SkyPilot's page "SkyPilot YAML".
SKYPILOT = {"name", "workdir", "num_nodes", "resources", "volumes", "envs", "secrets", "file_mounts", "setup", "run"}


@pytest.mark.parametrize("rank", [0, 1])
def test_every_node_of_skypilot_joins_the_cluster_and_trains(tmp_path, rank):
    yaml = pytest.importorskip("yaml", reason="PyYAML comes with the extra train")
    task = yaml.safe_load((FOLDER / "skypilot.yaml").read_text())
    assert set(task) <= SKYPILOT
    assert set(task["resources"]) <= {"accelerators", "cpus", "memory", "infra", "use_spot", "disk_size"}
    assert task["envs"][NICE_VARIABLE] == "0"
    subprocess.run(["bash", "-n"], input=task["setup"], text=True, check=True)
    node = {"NODE_RANK": str(rank), "NODE_IPS": "10.0.0.7\n10.0.0.8", "NUM_NODES": "1", "NUM_GPUS_PER_NODE": "8"}
    variables = stand_ins(tmp_path, "ray", "agentgym", "torchrun") | task["envs"] | {"HOME": str(tmp_path)}
    variables |= {f"SKYPILOT_{name}": value for name, value in node.items()}
    if rank:
        (tmp_path / "log").write_text("ray start of the first node\n")
    done = subprocess.run(
        ["bash", "-c", task["run"]], cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0, done.stderr
    calls = (tmp_path / "log").read_text().splitlines()
    own = "--head --port=6379" if rank == 0 else "--address=10.0.0.7:6379"
    assert [call for call in calls if call.startswith(f"ray start {own}")]
    assert f"--nproc-per-node=8 --node-rank={rank} --master-addr=10.0.0.7" in calls[-1]
    assert "-m agentgym train recipe.toml --out /runs/first --resume" in calls[-1]
    check_settings(dict(re.findall(r"--set machine\.(\w+)=(\S+)", calls[-1])))


def test_the_table_of_examples_names_every_file():
    table = (FOLDER.parent / "README.md").read_text()
    assert all(f"`cluster/{path.name}`" in table for path in FOLDER.iterdir())
