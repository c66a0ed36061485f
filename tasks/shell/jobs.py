"""The jobs of the shell tasks: a prompt, a command that does the job, and the checks of the result.

The checks are computed in Python from the generated files, independently of the command.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from .file_tree import LEVELS, FileTree

Job = tuple[str, str, dict[str, Any]]
"""The prompt, the command, and the checks, which are the truth for the reward `final_files`."""


def count_level(tree: FileTree, rng: random.Random) -> Job:
    """Count log lines of a level and a service."""
    level, service = rng.choice(LEVELS), rng.choice(tree.log_lines())[2]
    number = sum(line[1:3] == [level, service] for line in tree.log_lines())
    prompt = f"Write to count.txt how many lines of the files in logs have the level {level} and the service {service}."
    return prompt, f"cat logs/*.log | grep -c ' {level} {service} ' > count.txt", {"files": {"count.txt": f"{number}"}}


def slowest(tree: FileTree, rng: random.Random) -> Job:
    """Find the largest times in all logs."""
    number = rng.randint(2, 4)
    level = rng.choice(LEVELS)
    lines = [" ".join(line) for line in tree.log_lines() if line[1] == level]
    times = sorted({int(line.split()[3]) for line in lines}, reverse=True)[:number]
    prompt = (
        f"The last column of the files in logs is a time in milliseconds. Write the {number} largest different times "
        f"of the level {level} to slow.txt, one a line, the largest first. Are there fewer, write those."
    )
    command = f"cat logs/*.log | grep ' {level} ' | awk '{{print $4}}' | sort -rnu | head -{number} > slow.txt"
    return prompt, command, {"files": {"slow.txt": "\n".join(map(str, times))}}


def sum_column(tree: FileTree, rng: random.Random) -> Job:
    """Sum a column of the table over the rows of one kind."""
    kind, column = rng.choice(tree.rows())[1], rng.choice((2, 3))
    total = sum(int(row[column]) for row in tree.rows() if row[1] == kind)
    title = ("", "", "count", "price")[column]
    prompt = f"Write to total.txt the sum of the column {title} of data/sales.csv over the rows of the kind {kind}."
    command = f"awk -F, '$2 == \"{kind}\" {{ s += ${column + 1} }} END {{ print s + 0 }}' data/sales.csv > total.txt"
    return prompt, command, {"files": {"total.txt": str(total)}}


def unique_names(tree: FileTree, rng: random.Random) -> Job:
    """List distinct names in order."""
    minimum = rng.randint(3, 20)
    names = sorted({row[0] for row in tree.rows() if int(row[2]) >= minimum})
    prompt = (
        f"Write to names.txt the different names in data/sales.csv with a row whose count is at least {minimum}, in "
        "alphabetical order, one a line."
    )
    command = f"tail -n +2 data/sales.csv | awk -F, '$3 >= {minimum} {{ print $1 }}' | sort -u > names.txt"
    return prompt, command, {"files": {"names.txt": "\n".join(names)}}


def rename_suffix(tree: FileTree, rng: random.Random) -> Job:
    """Rename files by suffix, in all folders."""
    suffix = rng.choice(("md", "note", "text", "bak"))
    files: dict[str, str | None] = {}
    for path in tree.below("notes", ".txt"):
        files |= {path: None, path.removesuffix("txt") + suffix: tree.files[path]}
    prompt = f"Rename every .txt file below notes, in its folders too, so that it ends in .{suffix} in place of .txt."
    command = f"""find notes -name '*.txt' | while read -r f; do mv "$f" "${{f%.txt}}.{suffix}"; done"""
    return prompt, command, {"files": files}


def move_long(tree: FileTree, rng: random.Random) -> Job:
    """Move the files that are long."""
    minimum = rng.randint(3, 6)
    paths = tree.below("notes", ".txt")
    long_paths = [path for path in paths if len(tree.files[path].splitlines()) >= minimum]
    files: dict[str, str | None] = {path: None if path in long_paths else tree.files[path] for path in paths}
    files |= {f"long/{path.rsplit('/', 1)[1]}": tree.files[path] for path in long_paths}
    prompt = (
        f"Move every .txt file below notes that has at least {minimum} lines into a folder named long, beside notes."
    )
    command = (
        f"mkdir -p long; find notes -name '*.txt' | while read -r f; do "
        f'if [ "$(wc -l < "$f")" -ge {minimum} ]; then mv "$f" long/; fi; done'
    )
    return prompt, command, {"files": files}


def delete_leftovers(tree: FileTree, rng: random.Random) -> Job:
    """Delete only the files with a suffix that contain a word."""
    word = rng.choice(tree.files[rng.choice(tree.below("notes", ".tmp"))].split())
    deleted = [path for path in tree.below("notes", ".tmp") if word in tree.files[path].split()]
    remaining = [path for path in tree.below("notes") if path not in deleted]
    prompt = f"Delete every .tmp file in notes in which the word {word} stands. Leave all other files as they are."
    return (
        prompt,
        f"grep -lw {word} notes/*.tmp | xargs rm --",
        {"files": {**{path: tree.files[path] for path in remaining}, **dict.fromkeys(deleted)}},
    )


def set_option(tree: FileTree, rng: random.Random) -> Job:
    """Change one option in every configuration file."""
    option, value = rng.choice(("owner", "mode")), rng.choice(tree.words["names"]) + str(rng.randint(10, 99))
    files = {
        path: "\n".join(
            f"{option} = {value}" if line.startswith(f"{option} =") else line for line in tree.files[path].splitlines()
        )
        for path in tree.below("etc")
    }
    prompt = f"Set the option {option} to {value} in every .conf file in etc; every other line stays as it is."
    return prompt, f"sed -i 's/^{option} = .*/{option} = {value}/' etc/*.conf", {"files": files}


def script_of_column(tree: FileTree, rng: random.Random) -> Job:
    """Write a script that prints a column of any comma-separated file."""
    name, column = rng.choice(("report.sh", "column.sh", "cells.sh")), rng.randint(1, 4)
    column_text = "\n".join(row[column - 1] for row in tree.rows())
    second_table = "head\n" + "\n".join(f"{a},{a * 2},{a * 3},{a * 5}" for a in rng.sample(range(2, 90), 4)) + "\n"
    escaped_table = second_table.replace("\n", "\\n")
    expected = "\n".join(line.split(",")[column - 1] for line in second_table.split("\n")[1:-1])
    runs = [
        {"command": f"./{name} data/sales.csv", "stdout": column_text},
        {"command": f"printf '{escaped_table}' > other.csv; ./{name} other.csv", "stdout": expected},
    ]
    prompt = (
        f"Write an executable bash script {name} in /work. It is given the path of a comma-separated file with a head "
        f"line, and prints column {column} of every other line."
    )
    command = f"printf '#!/bin/bash\\ntail -n +2 \"$1\" | cut -d, -f{column}\\n' > {name}; chmod +x {name}"
    return prompt, command, {"runs": runs}


def total_by_name(tree: FileTree, rng: random.Random) -> Job:
    """Write a table of the sum for each name."""
    column = rng.choice((2, 3))
    totals: Counter[str] = Counter()
    for row in tree.rows():
        totals[row[0]] += int(row[column])
    lines = [f"{name} {totals[name]}" for name in sorted(totals)]
    title = ("", "", "count", "price")[column]
    prompt = (
        f"Write to by_name.txt, for each name in data/sales.csv in alphabetical order, a line with the name, a space "
        f"and the sum of its column {title}."
    )
    command = (
        f"tail -n +2 data/sales.csv | awk -F, '{{ s[$1] += ${column + 1} }} END {{ for (n in s) print n, s[n] }}' "
        "| LC_ALL=C sort > by_name.txt"
    )
    return prompt, command, {"files": {"by_name.txt": "\n".join(lines)}}


def busiest(tree: FileTree, rng: random.Random) -> Job:
    """Count the services of a level, the most frequent first."""
    level = rng.choice(LEVELS)
    counts = Counter(line[2] for line in tree.log_lines() if line[1] == level)
    lines = [f"{service} {number}" for service, number in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))]
    prompt = (
        f"Write to services.txt a line for each service with the level {level} in the files in logs: the service, a "
        "space and how many such lines it has, the highest number first, equal numbers in alphabetical order."
    )
    command = (
        f"cat logs/*.log | awk '$2 == \"{level}\" {{ n[$3]++ }} END {{ for (s in n) print s, n[s] }}' "
        "| LC_ALL=C sort -k2,2nr -k1,1 > services.txt"
    )
    return prompt, command, {"files": {"services.txt": "\n".join(lines)}}


def pack(tree: FileTree, rng: random.Random) -> Job:
    """Put some files into an archive."""
    name, suffix = rng.choice(("backup", "pack", "store", "keep")), rng.choice((".txt", ".tmp"))
    paths = tree.below("notes", suffix)
    listing = "\n".join(paths)
    sample = rng.choice(paths)
    runs = [
        {"command": f"tar -tf {name}.tar | LC_ALL=C sort", "stdout": listing},
        {"command": f"tar -xOf {name}.tar {sample}", "stdout": tree.files[sample]},
    ]
    prompt = f"Put every {suffix} file below notes, and no folder, into {name}.tar, under its path such as {paths[0]}."
    return prompt, f"find notes -name '*{suffix}' | tar -cf {name}.tar -T -", {"runs": runs}


def split_table(tree: FileTree, rng: random.Random) -> Job:
    """Write one file for each kind of row."""
    folder = rng.choice(("parts", "split", "kinds"))
    files = {}
    for kind in sorted({row[1] for row in tree.rows()}):
        files[f"{folder}/{kind}.csv"] = "\n".join(",".join(row) for row in tree.rows() if row[1] == kind)
    prompt = (
        f"Split data/sales.csv by its column kind: write the rows of each kind, without the head line and in their "
        f"order, to a file in the folder {folder} that is named after the kind and ends in .csv."
    )
    command = f'mkdir -p {folder}; tail -n +2 data/sales.csv | awk -F, \'{{ print > ("{folder}/" $2 ".csv") }}\''
    return prompt, command, {"files": files}


KNOWN_JOBS: Mapping[str, Callable[[FileTree, random.Random], Job]] = {
    job.__name__: job
    for job in (
        count_level,
        slowest,
        sum_column,
        unique_names,
        rename_suffix,
        move_long,
        delete_leftovers,
        set_option,
        script_of_column,
        total_by_name,
    )
}
UNSEEN_JOBS: Mapping[str, Callable[[FileTree, random.Random], Job]] = {
    job.__name__: job for job in (busiest, pack, split_table)
}
