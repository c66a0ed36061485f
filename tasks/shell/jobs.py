"""The jobs of the shell tasks: what is asked, a command that does it, and what must be true in the end.

What must be true is worked out in Python from the drawn files, independently of the command.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from .world import LEVELS, World

Job = tuple[str, str, dict[str, Any]]
"""What is asked, the command, the checks (the truth of a task of the reward `final_files`)."""


def count_level(world: World, rng: random.Random) -> Job:
    """Count log lines of a level and a service."""
    level, service = rng.choice(LEVELS), rng.choice(world.log_lines())[2]
    number = sum(line[1:3] == [level, service] for line in world.log_lines())
    asked = f"Write to count.txt how many lines of the files in logs have the level {level} and the service {service}."
    return asked, f"cat logs/*.log | grep -c ' {level} {service} ' > count.txt", {"files": {"count.txt": f"{number}"}}


def slowest(world: World, rng: random.Random) -> Job:
    """The slowest lines of all logs."""
    number = rng.randint(2, 4)
    level = rng.choice(LEVELS)
    lines = [" ".join(line) for line in world.log_lines() if line[1] == level]
    times = sorted({int(line.split()[3]) for line in lines}, reverse=True)[:number]
    asked = (
        f"The last column of the files in logs is a time in milliseconds. Write the {number} largest different times "
        f"of the level {level} to slow.txt, one a line, the largest first. Are there fewer, write those."
    )
    command = f"cat logs/*.log | grep ' {level} ' | awk '{{print $4}}' | sort -rnu | head -{number} > slow.txt"
    return asked, command, {"files": {"slow.txt": "\n".join(map(str, times))}}


def sum_column(world: World, rng: random.Random) -> Job:
    """Sum a column of the table over one kind."""
    kind, column = rng.choice(world.rows())[1], rng.choice((2, 3))
    total = sum(int(row[column]) for row in world.rows() if row[1] == kind)
    title = ("", "", "count", "price")[column]
    asked = f"Write to total.txt the sum of the column {title} of data/sales.csv over the rows of the kind {kind}."
    command = f"awk -F, '$2 == \"{kind}\" {{ s += ${column + 1} }} END {{ print s + 0 }}' data/sales.csv > total.txt"
    return asked, command, {"files": {"total.txt": str(total)}}


def unique_names(world: World, rng: random.Random) -> Job:
    """Different names, in order."""
    least = rng.randint(3, 20)
    names = sorted({row[0] for row in world.rows() if int(row[2]) >= least})
    asked = (
        f"Write to names.txt the different names in data/sales.csv with a row whose count is at least {least}, in "
        "alphabetical order, one a line."
    )
    command = f"tail -n +2 data/sales.csv | awk -F, '$3 >= {least} {{ print $1 }}' | sort -u > names.txt"
    return asked, command, {"files": {"names.txt": "\n".join(names)}}


def rename_suffix(world: World, rng: random.Random) -> Job:
    """Rename files by suffix, in every folder below."""
    suffix = rng.choice(("md", "note", "text", "bak"))
    files: dict[str, str | None] = {}
    for path in world.below("notes", ".txt"):
        files |= {path: None, path.removesuffix("txt") + suffix: world.files[path]}
    asked = f"Rename every .txt file below notes, in its folders too, so that it ends in .{suffix} in place of .txt."
    command = f"""find notes -name '*.txt' | while read -r f; do mv "$f" "${{f%.txt}}.{suffix}"; done"""
    return asked, command, {"files": files}


def move_long(world: World, rng: random.Random) -> Job:
    """Move files by their length."""
    least = rng.randint(3, 6)
    paths = world.below("notes", ".txt")
    long = [path for path in paths if len(world.files[path].splitlines()) >= least]
    files: dict[str, str | None] = {path: None if path in long else world.files[path] for path in paths}
    files |= {f"long/{path.rsplit('/', 1)[1]}": world.files[path] for path in long}
    asked = f"Move every .txt file below notes that has at least {least} lines into a folder named long, beside notes."
    command = (
        f"mkdir -p long; find notes -name '*.txt' | while read -r f; do "
        f'if [ "$(wc -l < "$f")" -ge {least} ]; then mv "$f" long/; fi; done'
    )
    return asked, command, {"files": files}


def delete_leftovers(world: World, rng: random.Random) -> Job:
    """Delete files of a suffix that hold a word, and nothing else."""
    word = rng.choice(world.files[rng.choice(world.below("notes", ".tmp"))].split())
    gone = [path for path in world.below("notes", ".tmp") if word in world.files[path].split()]
    kept = [path for path in world.below("notes") if path not in gone]
    asked = f"Delete every .tmp file in notes in which the word {word} stands. Leave all other files as they are."
    return (
        asked, f"grep -lw {word} notes/*.tmp | xargs rm --",
        {"files": {**{path: world.files[path] for path in kept}, **dict.fromkeys(gone)}},
    )  # fmt: skip


def set_option(world: World, rng: random.Random) -> Job:
    """Change one setting of every settings file."""
    option, value = rng.choice(("owner", "mode")), rng.choice(world.words["names"]) + str(rng.randint(10, 99))
    files = {
        path: "\n".join(
            f"{option} = {value}" if line.startswith(f"{option} =") else line for line in world.files[path].splitlines()
        )
        for path in world.below("etc")
    }
    asked = f"Set the option {option} to {value} in every .conf file in etc; every other line stays as it is."
    return asked, f"sed -i 's/^{option} = .*/{option} = {value}/' etc/*.conf", {"files": files}


def script_of_column(world: World, rng: random.Random) -> Job:
    """Write a script that works on other files too."""
    name, column = rng.choice(("report.sh", "column.sh", "cells.sh")), rng.randint(1, 4)
    shown = "\n".join(row[column - 1] for row in world.rows())
    other = "head\n" + "\n".join(f"{a},{a * 2},{a * 3},{a * 5}" for a in rng.sample(range(2, 90), 4)) + "\n"
    given = other.replace("\n", "\\n")
    expected = "\n".join(line.split(",")[column - 1] for line in other.split("\n")[1:-1])
    runs = [
        {"command": f"./{name} data/sales.csv", "stdout": shown},
        {"command": f"printf '{given}' > other.csv; ./{name} other.csv", "stdout": expected},
    ]
    asked = (
        f"Write an executable bash script {name} in /work. It is given the path of a comma-separated file with a head "
        f"line, and prints column {column} of every other line."
    )
    command = f"printf '#!/bin/bash\\ntail -n +2 \"$1\" | cut -d, -f{column}\\n' > {name}; chmod +x {name}"
    return asked, command, {"runs": runs}


def total_by_name(world: World, rng: random.Random) -> Job:
    """A table of sums."""
    column = rng.choice((2, 3))
    totals: Counter[str] = Counter()
    for row in world.rows():
        totals[row[0]] += int(row[column])
    lines = [f"{name} {totals[name]}" for name in sorted(totals)]
    title = ("", "", "count", "price")[column]
    asked = (
        f"Write to by_name.txt, for each name in data/sales.csv in alphabetical order, a line with the name, a space "
        f"and the sum of its column {title}."
    )
    command = (
        f"tail -n +2 data/sales.csv | awk -F, '{{ s[$1] += ${column + 1} }} END {{ for (n in s) print n, s[n] }}' "
        "| LC_ALL=C sort > by_name.txt"
    )
    return asked, command, {"files": {"by_name.txt": "\n".join(lines)}}


def busiest(world: World, rng: random.Random) -> Job:
    """The services that a level names, by how often."""
    level = rng.choice(LEVELS)
    found = Counter(line[2] for line in world.log_lines() if line[1] == level)
    lines = [f"{service} {number}" for service, number in sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))]
    asked = (
        f"Write to services.txt a line for each service with the level {level} in the files in logs: the service, a "
        "space and how many such lines it has, the highest number first, equal numbers in alphabetical order."
    )
    command = (
        f"cat logs/*.log | awk '$2 == \"{level}\" {{ n[$3]++ }} END {{ for (s in n) print s, n[s] }}' "
        "| LC_ALL=C sort -k2,2nr -k1,1 > services.txt"
    )
    return asked, command, {"files": {"services.txt": "\n".join(lines)}}


def pack(world: World, rng: random.Random) -> Job:
    """Put some files into an archive."""
    name, suffix = rng.choice(("backup", "pack", "store", "keep")), rng.choice((".txt", ".tmp"))
    paths = world.below("notes", suffix)
    listed = "\n".join(paths)
    shown = rng.choice(paths)
    runs = [
        {"command": f"tar -tf {name}.tar | LC_ALL=C sort", "stdout": listed},
        {"command": f"tar -xOf {name}.tar {shown}", "stdout": world.files[shown]},
    ]
    asked = f"Put every {suffix} file below notes, and no folder, into {name}.tar, under its path such as {paths[0]}."
    return asked, f"find notes -name '*{suffix}' | tar -cf {name}.tar -T -", {"runs": runs}


def split_table(world: World, rng: random.Random) -> Job:
    """One file for each kind of row."""
    folder = rng.choice(("parts", "split", "kinds"))
    files = {}
    for kind in sorted({row[1] for row in world.rows()}):
        files[f"{folder}/{kind}.csv"] = "\n".join(",".join(row) for row in world.rows() if row[1] == kind)
    asked = (
        f"Split data/sales.csv by its column kind: write the rows of each kind, without the head line and in their "
        f"order, to a file in the folder {folder} that is named after the kind and ends in .csv."
    )
    command = f'mkdir -p {folder}; tail -n +2 data/sales.csv | awk -F, \'{{ print > ("{folder}/" $2 ".csv") }}\''
    return asked, command, {"files": files}


KNOWN_JOBS: Mapping[str, Callable[[World, random.Random], Job]] = {
    job.__name__: job
    for job in (
        count_level, slowest, sum_column, unique_names, rename_suffix, move_long, delete_leftovers, set_option,
        script_of_column, total_by_name,
    )
}  # fmt: skip
UNSEEN_JOBS: Mapping[str, Callable[[World, random.Random], Job]] = {
    job.__name__: job for job in (busiest, pack, split_table)
}
