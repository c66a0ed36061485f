"""Which ways of training can be combined: full weights or LoRA, a KL term, iterations, processes, and samplers.

    python benchmarks/combinations.py [--vllm .venv-vllm/bin/python]

Every combination is a separate run of the command line, from one checkpoint that sometimes wins a guessing game; "vllm,
fsdp" shards the weights over the processes. A row shows whether it ran, the largest difference of sampled and
recomputed log-probabilities (in nats), and, for two processes that sample by transformers, the distance of the final
weights from those of one process, which plays the same episodes. Takes a quarter of an hour with vLLM and
five minutes without.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import tomli_w
from rich.console import Console
from rich.table import Table
from safetensors.torch import load_file

from agentgym.storage.run_folder import RunFolder

STEPS = 2
BASE = {
    "name": "combinations",
    "tasks": {"set": "text/number-guess-v1", "tags": ["level_0"]},
    "episode": {"max_turns": 4, "max_episode_tokens": 120, "max_turn_tokens": 24},
    "evaluate": {"tasks": 4},
    "machine": {"device": "cpu", "threads": 1},
}
TINY = {"vocabulary": 400, "hidden": 64, "layers": 2, "heads": 2, "kv_heads": 1, "head_dim": 32}
WARM_START = {"demonstrations": 100, "steps": 60, "batch_size": 16, "validate_every": 100, "validate_tasks": 1}


def train(recipe: dict[str, object], folder: Path, processes: int) -> str:
    """Run a recipe by the command line. Returns: "" or the first line of the error."""
    file = folder.with_suffix(".toml")
    file.write_text(tomli_w.dumps(recipe))
    launcher = ["-m", "torch.distributed.run", "--nproc_per_node", str(processes)] if processes > 1 else []
    command = [sys.executable, *launcher, "-m", "agentgym", "train", str(file), "--out", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    lines = [line for line in done.stderr.splitlines() if "Error" in line or "what()" in line]
    return "" if done.returncode == 0 else (lines or done.stderr.splitlines() or ["no message"])[0].strip()


def weights_apart(*runs: Path) -> float:
    """Return the largest difference between the final weights of two runs."""
    first, second = (load_file(run / "checkpoints" / "final" / "model.safetensors") for run in runs)
    return max(float((first[name] - second[name]).abs().max()) for name in first)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vllm", metavar="PYTHON", help="an interpreter that has vLLM")
    vllm = parser.parse_args().vllm
    table = Table(title=f"{STEPS} steps of 16 episodes, one thread a process")
    for column in ("weights", "kl", "iterations", "sampled by", "processes", "ran", "drift", "weights apart"):
        table.add_column(column)
    ways = [("transformers", 1), ("transformers", 2), ("trl", 1)]
    ways += [("vllm", 1), ("vllm", 2), ("vllm, fsdp", 2)] if vllm else []
    with tempfile.TemporaryDirectory() as scratch:
        start = Path(scratch) / "start"
        if why := train({**BASE, "policy": {"tiny": TINY}, "warm_start": WARM_START, "train": {"steps": 0}}, start, 1):
            raise SystemExit(f"the warm start failed: {why}")
        settings = list(itertools.product(("full", "LoRA"), (0.0, 0.05), (1, 2), ways))
        runs: dict[tuple[object, ...], Path] = {}
        for weights, kl, iterations, (sampler, processes) in settings:
            print(f"{weights}, kl {kl}, iterations {iterations}, {sampler}, processes {processes}", flush=True)
            section = {"steps": STEPS, "tasks_per_step": 4, "group_size": 4, "kl": kl, "iterations": iterations}
            section |= {
                "validate_every": 100,
                "microbatch_tokens": 1000,
                "trl": {"optim": "sgd"},  # Adam would make much of the last bit
                "terms": {"entropy_bonus": {"weight": 1.0}},  # the weights move also where nothing is earned
                "optimiser": {"learning_rate": 0.05},
            }
            policy: dict[str, object] = {"path": str(start)}
            if weights == "LoRA":
                policy["lora"] = {"rank": 8, "alpha": 16}
            recipe = {**BASE, "policy": policy, "train": section}
            if sampler.startswith("vllm"):
                recipe["vllm"] = {"python": str(vllm), "options": ["--max-model-len=512"]}
            if sampler == "vllm, fsdp":
                recipe["machine"] = {**BASE["machine"], "sharding": "fsdp"}
            if sampler == "trl":
                section["generation"] = "trl"
            folder = Path(scratch) / f"{weights}-{kl}-{iterations}-{sampler}-{processes}"
            why = train(recipe, folder, processes)
            runs[weights, kl, iterations, sampler, processes] = folder
            drift = apart = ""
            if not why:
                drift = f"{max(row.get('guard/drift', 0.0) for row in RunFolder(folder).metrics('train')):.0e}"
                if processes == 2 and sampler == "transformers":
                    apart = f"{weights_apart(runs[weights, kl, iterations, sampler, 1], folder):.0e}"
            table.add_row(weights, str(kl), str(iterations), sampler, str(processes), why or "yes", drift, apart)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
