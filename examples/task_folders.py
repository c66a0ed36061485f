"""Write a corpus of small task folders in Harbor's format, for `recipes/data/task_folders.toml`.

    python examples/task_folders.py corpus --count 130
    agentgym tasks import harbor corpus --split validation:10,held_out:30 --validate --out corpus.jsonl
    agentgym train recipes/data/task_folders.toml --out runs/folders

Each folder has a Dockerfile, files, an instruction, a solution and a test; all share one base image.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

NAMES = ("apples", "bears", "cities", "dogs", "eggs", "fields")
WORDS = ("red", "blue", "green", "old")
DOCKERFILE = """\
FROM debian:12
WORKDIR /app
COPY files/ .
"""
TEST = """\
#!/bin/bash
cd /app
if {condition}; then reward=1; else reward=0; fi
mkdir -p /logs/verifier
echo $reward > /logs/verifier/reward.txt
"""


def written(path: str, lines: list[str]) -> str:
    """Return a condition of the shell: a file has these lines."""
    text = "\\n".join(lines)
    return f'[ -f {path} ] && [ "$(cat {path})" = "$(printf \'{text}\')" ]'


def task(rng: random.Random) -> tuple[str, dict[str, list[str]], str, str]:
    """Return a random task: its instruction, its files by name, the command that solves it, the test's condition."""
    first, second = rng.sample(NAMES, 2)
    source, target = f"{first}.txt", f"{second}.txt"
    word, other = rng.sample(WORDS, 2)
    lines = [f"{rng.choice(WORDS)} {rng.randrange(10, 99)}" for _ in range(rng.randrange(4, 8))] + [f"{word} 7"]
    rng.shuffle(lines)
    those = [line for line in lines if word in line.split()]
    replaced = [line.replace(word, other) for line in lines]
    size, last = [str(len(lines))], lines[-1:]
    kinds = (
        (f"Copy {source} to {target}.", f"cp {source} {target}", written(target, lines)),
        (f"Rename {source} to {target}.", f"mv {source} {target}", f"[ ! -e {source} ] && {written(target, lines)}"),
        (f"Delete {source}.", f"rm {source}", f"[ ! -e {source} ]"),
        (f"Make the folder {second}.", f"mkdir {second}", f"[ -d {second} ]"),
        (f"Make {source} executable.", f"chmod +x {source}", f"[ -x {source} ]"),
        (f"Sort {source} into {target}.", f"sort {source} > {target}", written(target, sorted(lines))),
        (f"Count lines of {source} into {target}.", f"wc -l < {source} > {target}", written(target, size)),
        (f"Put the last line of {source} into {target}.", f"tail -n 1 {source} > {target}", written(target, last)),
        (f"Put {word} lines of {source} into {target}.", f"grep {word} {source} > {target}", written(target, those)),
        (f"Replace {word} by {other} in {source}.", f"sed -i s/{word}/{other}/ {source}", written(source, replaced)),
    )
    instruction, command, condition = rng.choice(kinds)
    return instruction, {source: lines}, command, condition


def write(folder: Path, count: int, seed: int) -> None:
    """Write `count` task folders of different instructions below `folder`."""
    rng, seen = random.Random(seed), set[str]()
    while len(seen) < count:
        instruction, files, command, condition = task(rng)
        if instruction in seen:
            continue
        seen.add(instruction)
        top = folder / f"task-{len(seen):03d}"
        texts = {
            "instruction.md": f"{instruction}\n",
            "task.toml": 'version = "1.0"\n\n[verifier]\ntimeout_sec = 30\n\n[agent]\ntimeout_sec = 60\n\n'
            "[environment]\nmemory_mb = 256\nstorage_mb = 64\n",
            "environment/Dockerfile": DOCKERFILE,
            "solution/solve.sh": f"{command}\n",
            "tests/test.sh": TEST.format(condition=condition),
            **{f"environment/files/{name}": "\n".join(lines) + "\n" for name, lines in files.items()},
        }
        for path, text in texts.items():
            (top / path).parent.mkdir(parents=True, exist_ok=True)
            (top / path).write_text(text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("corpus"), help="where to write the folders")
    parser.add_argument("--count", type=int, default=130, help="the number of folders")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    write(arguments.folder, arguments.count, arguments.seed)
    print(f"{arguments.folder}: {arguments.count} task folders")
