"""Write a corpus of small task folders in Harbor's format, for `recipes/data/task_folders.toml`.

    python examples/task_folders.py corpus --count 130
    agentgym sandbox base debian:12
    agentgym tasks import harbor corpus --split validation:10,held_out:30 --validate --out corpus.jsonl
    agentgym train recipes/data/task_folders.toml --out runs/folders

Each folder has a Dockerfile, files, an instruction, a solution and a test; all share one base image.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

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


def task(rng: random.Random) -> tuple[str, list[str], str, str]:
    """Return a random task about data.txt: its instruction, the lines, the command that solves it, the condition."""
    word, other = rng.sample(WORDS, 2)
    count = rng.randrange(1, 5)
    lines = [f"{rng.choice(WORDS)} {rng.randrange(10, 99)}" for _ in range(rng.randrange(5, 9))] + [f"{word} 7"]
    rng.shuffle(lines)
    those = [line for line in lines if word in line]
    others = [line for line in lines if word not in line] or [""]
    kinds = (
        ("Copy all lines", "cp data.txt out.txt", lines),
        ("Sort the lines", "sort data.txt > out.txt", sorted(lines)),
        ("Sort the lines backwards", "sort -r data.txt > out.txt", sorted(lines, reverse=True)),
        ("Count the lines", "wc -l < data.txt > out.txt", [str(len(lines))]),
        ("Reverse the order of the lines", "tac data.txt > out.txt", lines[::-1]),
        (f"Put the first {count} lines", f"head -n {count} data.txt > out.txt", lines[:count]),
        (f"Put the last {count} lines", f"tail -n {count} data.txt > out.txt", lines[-count:]),
        (f"Put the lines with {word}", f"grep {word} data.txt > out.txt", those),
        (f"Put the lines without {word}", f"grep -v {word} data.txt > out.txt", others),
        (f"Count the lines with {word}", f"grep -c {word} data.txt > out.txt", [str(len(those))]),
        (
            f"Replace {word} by {other}",
            f"sed s/{word}/{other}/ data.txt > out.txt",
            [line.replace(word, other) for line in lines],
        ),
    )
    instruction, command, expected = rng.choice(kinds)
    return f"{instruction} of data.txt, into out.txt.", lines, command, written("out.txt", expected)


def write(folder: Path, count: int, seed: int) -> None:
    """Write `count` task folders below `folder`."""
    rng = random.Random(seed)
    for number in range(count):
        instruction, lines, command, condition = task(rng)
        top = folder / f"task-{number:03d}"
        texts = {
            "instruction.md": f"{instruction}\n",
            "task.toml": 'version = "1.0"\n\n[verifier]\ntimeout_sec = 30\n\n[agent]\ntimeout_sec = 60\n\n'
            "[environment]\nmemory_mb = 256\nstorage_mb = 64\n",
            "environment/Dockerfile": DOCKERFILE,
            "solution/solve.sh": f"{command}\n",
            "tests/test.sh": TEST.format(condition=condition),
            "environment/files/data.txt": "\n".join(lines) + "\n",
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
