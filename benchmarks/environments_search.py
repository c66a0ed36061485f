"""How fast search is: steps of scripted episodes, and one index over a million passages shared by many episodes.

    python benchmarks/environments_search.py                     # 1,000,000 passages and 64 episodes: 2 GB of disk
    python benchmarks/environments_search.py --passages 50000    # the same, small

The passages are generated: words drawn from a Zipf law over 200,000 made-up ones, about 60 a passage. Queries are words
of a passage drawn at random, so that they mix rare words with common ones, as questions do. Everything is stored in
$AGENTGYM_CACHE.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
from environments_row import Row

from agentgym import Call, Task, load_task_set, make
from agentgym.sandbox import cache_folder
from agentgym.sandboxes.search import Search, open_library
from agentgym.sandboxes.search.index import Library
from agentgym.sandboxes.search.index.words import words

VOCABULARY, LENGTH, EXPONENT = 200_000, 60, 1.07
QUERIES, QUERY_WORDS, TOP = 400, 6, 10
PEER_PASSAGES = 200_000
"""The most passages for the comparison with bm25s, which needs every term of the corpus in memory for its index."""


def measure(budget_s: float) -> list[Row]:
    """Return oracle steps per CPU-second through Environment.call, beside the bare ranking and page reads."""
    task_set = load_task_set("search/wiki-v1")
    library = open_library("search/wiki", seed=0)
    tasks = [task for task in task_set["train"] if "obscured" not in task.tags][:200]
    asyncio.run(_play(tasks[:5], 1e9))  # the index is built and warm
    steps, spent = asyncio.run(_play(tasks, budget_s / 2))
    ranking, bare, started = library.ranking(), 0, time.process_time()
    while (elapsed := time.process_time() - started) < budget_s / 2:
        task = tasks[bare % len(tasks)]
        name = next(iter(task.truth["pages"]))
        for number, _ in ranking.rank(name, 5):
            library.pages[number]
        bare += 1
    rate = steps / spent
    return [Row("agentgym/search-v1", rate, "one BM25 ranking and its 5 pages", rate / (bare / elapsed))]


async def _play(tasks: list[Task], budget_s: float) -> tuple[int, float]:
    """Return the number of steps and their CPU seconds: search, open, follow every link on the way, answer."""
    steps, spent = 0, 0.0
    environment = make("agentgym/search-v1")
    for task in tasks * 1_000:
        await environment.reset(task.public(), seed=0)
        first, *others = task.truth["pages"]
        calls = [Call("search", {"query": first}), Call("open", {"page": first})]
        calls += [Call("follow", {"link": title}) for title in others]
        calls.append(Call("answer", {"text": task.truth["answer"]}))
        started = time.process_time()
        for call in calls:
            result = await environment.call(call)
            if not result.ok:
                raise RuntimeError(f"{task.id}: {call} was refused: {result.content}")
        spent += time.process_time() - started
        steps += len(calls)
        if spent > budget_s or (budget_s > 1e6 and task is tasks[-1]):
            break
    await environment.close()
    return steps, spent


def corpus(passages: int) -> Path:
    """Return a file of generated passages, written once; its name contains their number."""
    path = cache_folder() / "benchmarks" / f"passages-{passages}.jsonl"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        with partial.open("w") as file:
            for number, text in enumerate(_texts(passages)):
                file.write(json.dumps({"id": str(number), "title": f"Passage {number}", "text": text}) + "\n")
        partial.replace(path)
    return path


def queries(library: Library) -> list[str]:
    """Return queries: words of passages drawn at random."""
    rng = np.random.default_rng(1)
    chosen = rng.integers(0, len(library.pages), QUERIES)
    return [" ".join(rng.choice(library.pages[int(number)].text.split(), QUERY_WORDS)) for number in chosen]


def _texts(passages: int) -> Iterator[str]:
    rng = np.random.default_rng(0)
    syllables = ["".join(pair) for pair in product("bdfgklmnprstvz", "aeiou")]
    pieces = np.array(["".join(trio) for trio in product(syllables, repeat=3)])[: VOCABULARY * 2]
    vocabulary = rng.permutation(pieces)[:VOCABULARY]
    shares = 1.0 / np.arange(1, len(vocabulary) + 1) ** EXPONENT
    edges = np.cumsum(shares / shares.sum())
    for start in range(0, passages, 10_000):
        count = min(10_000, passages - start)
        lengths = rng.integers(LENGTH // 2, LENGTH * 3 // 2, count)
        drawn = vocabulary[np.searchsorted(edges, rng.random(int(lengths.sum())))]
        for piece in np.split(drawn, np.cumsum(lengths)[:-1]):
            yield " ".join(piece)


async def many_episodes(path: Path, episodes: int) -> None:
    """Open, ask and hold `episodes` environments at once; print latency and what an episode adds to the process."""
    library = open_library(str(path))
    search_queries = queries(library)
    task = Task("passages", "agentgym/search-v1", "Q?", parameters={"corpus": str(path)})
    environments = [Search(results=TOP) for _ in range(episodes)]
    await environments[0].reset(task, seed=0)
    for query in search_queries:
        await environments[0].call(Call("search", {"query": query}))
    before = memory_mib()
    for environment in environments[1:]:
        await environment.reset(task, seed=0)
    ranking = library.ranking()
    ranked = [_timed(lambda query=query: ranking.rank(query, TOP)) for query in search_queries]
    stepped = []
    for index, query in enumerate(search_queries):
        started = time.perf_counter(), time.process_time()
        await environments[index % episodes].call(Call("search", {"query": query}))
        stepped.append((time.perf_counter() - started[0], time.process_time() - started[1]))
    after = memory_mib()
    assert len({id(environment._library) for environment in environments}) == 1
    for what, measured in (("BM25 ranking", ranked), ("search tool of an episode, with pages and snippets", stepped)):
        wall, cpu = (np.array([row[part] for row in measured]) * 1e3 for part in (0, 1))
        p50, p95 = (np.percentile(times, part) for times, part in ((wall, 50), (wall, 95)))
        spent = f"CPU p50 {np.median(cpu):.2f} ms, mean {cpu.mean():.2f} ms"
        print(f"{what}, best {TOP} of {len(library.pages):,}: p50 {p50:.2f} ms, p95 {p95:.2f} ms; {spent}")
    each = (after["private"] - before["private"]) / max(episodes - 1, 1)
    held = f"the process holds {after['private']:.0f} MiB and {after['shared']:.0f} MiB of the shared map"
    print(f"{episodes} episodes: {each:.3f} MiB of their own each; {held}")


def beside_bm25s(library: Library) -> None:
    """Print the time that the package bm25s takes for the same queries over the same terms, in this process."""
    import bm25s

    peer = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    started = time.process_time()
    peer.index([words(f"{page.title}\n{page.text}") for page in library.pages], show_progress=False)
    built = time.process_time() - started
    ranking, pairs = library.ranking(), []
    for query in queries(library):
        ours = _timed(lambda query=query: ranking.rank(query, TOP))
        theirs = _timed(lambda query=query: peer.retrieve([words(query)], k=TOP, show_progress=False))
        pairs.append((ours[1] * 1e3, theirs[1] * 1e3))
    ours, theirs = np.median(pairs, axis=0)
    print(f"bm25s: indexed in {built:.0f} s CPU; CPU p50 {theirs:.2f} ms where ours is {ours:.2f} ms, in turns")


def memory_mib() -> dict[str, float]:
    """Return this process's memory in MiB: private pages, and file pages that other processes may share."""
    lines = Path("/proc/self/smaps").read_text().splitlines()
    sizes = {"private": 0, "shared": 0}
    mapped = False
    for line in lines:
        key, _, rest = line.partition(":")
        if "-" in key and not rest.strip().endswith("kB"):
            mapped = "/search/" in line
        elif key in ("Private_Dirty", "Private_Clean", "Shared_Clean", "Shared_Dirty"):
            sizes["shared" if mapped else "private"] += int(rest.split()[0]) if mapped or key[0] == "P" else 0
    return {name: kib / 1024 for name, kib in sizes.items()}


def _timed(work) -> tuple[float, float]:
    started = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - started[0], time.process_time() - started[1]


def main() -> None:
    """Print everything."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--passages", type=int, default=1_000_000)
    options.add_argument("--episodes", type=int, default=64)
    options.add_argument("--second", action="store_true", help=argparse.SUPPRESS)  # the further process
    given = options.parse_args()
    if not given.second:
        for row in measure(4.0):
            print(f"{row.name}: {row.per_cpu_second:,.0f} steps a CPU-second, {row.ratio:.2f} of {row.against}")
        started = time.process_time()
        path = corpus(given.passages)
        wrote = time.process_time()
        open_library(str(path)).ranking()
        print(f"corpus: written in {wrote - started:.0f} s CPU, indexed in {time.process_time() - wrote:.0f} s CPU")
        folder = cache_folder() / "search" / open_library(str(path)).digest
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        print(f"index on disk: {size / 2**20:,.0f} MiB, the pages themselves included")
        if given.passages <= PEER_PASSAGES:
            beside_bm25s(open_library(str(path)))
    asyncio.run(many_episodes(corpus(given.passages), given.episodes))
    if not given.second:
        print("a further process:", flush=True)
        command = [sys.executable, __file__, "--second", f"--passages={given.passages}", f"--episodes={given.episodes}"]
        subprocess.run(command, check=True, env=os.environ)


if __name__ == "__main__":
    main()
