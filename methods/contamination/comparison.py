"""Find held-out tasks that leak into training: equal or nearly equal training tasks, or parts of a text corpus.

A task set cannot be built with equal ids or equal content in two splits. This module finds the other leaks: tasks that
differ only in bookkeeping parameters (an index, a seed), near duplicates, tasks of other sets, and training text.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from agentgym import EvaluationError, Task

BANDS, ROWS = 32, 4  # pairs with Jaccard similarity 0.7 are found with probability 1 - (1 - 0.7^4)^32 = 0.9998
SHINGLE = 3
FEWEST_TELLING = 4
MAX_CHARS = 4_000
_WORD = re.compile(r"\w+", re.UNICODE)


@dataclass(frozen=True, slots=True)
class Overlap:
    """A held-out task and the training task that leaks it.

    Attributes:
        kind: `same` (equal words, parameters and truth, except for bookkeeping parameters) or `near` (similar words).
        train, held_out: the ids of the two tasks. `similarity`: the Jaccard index of their distinctive word triples;
            1.0 for `same`.
    """

    kind: Literal["same", "near"]
    train: str
    held_out: str
    similarity: float


@dataclass(frozen=True, slots=True)
class Contamination:
    """The result of a search for overlaps.

    Attributes:
        overlaps: for each leaked held-out task, the overlap with the most similar training task; `same` overlaps first.
        train, held_out: number of training and of held-out tasks compared.
        told_apart_by_seed: the number of held-out tasks that share words and truth with training tasks, but whose
            environments may differ, for example by a seed: their text does not show whether they leak.
    """

    overlaps: Sequence[Overlap]
    train: int
    held_out: int
    told_apart_by_seed: int

    @property
    def leaked(self) -> int:
        """The number of held-out tasks with an overlap of the kind `same`."""
        return sum(overlap.kind == "same" for overlap in self.overlaps)

    def __str__(self) -> str:
        near = len(self.overlaps) - self.leaked
        return f"{self.leaked} of {self.held_out} held-out tasks are in training word for word, {near} nearly so"


def contamination(train: Sequence[Task], held_out: Sequence[Task], *, threshold: float = 0.8) -> Contamination:
    """Search training tasks for tasks that leak held-out tasks.

    Compare the words of the opening and of the parameters, ignoring case, punctuation and bookkeeping (see
    Task.BOOKKEEPING). Near duplicates share at least the fraction `threshold` of their distinctive word
    triples. A triple is distinctive if at most 2 % of the training tasks (or 5 tasks) contain it, since template words
    say nothing about a task. Candidates come from MinHash and banding, and are then compared exactly.
    Raises: EvaluationError for a threshold outside (0, 1].
    Source: Broder 1997, "On the resemblance and containment of documents"; banding: Indyk and Motwani 1998, STOC.
    """
    if not 0 < threshold <= 1:
        raise EvaluationError(
            f"threshold = {threshold} is not valid: give a share of word triples above 0 and at most 1, usually 0.8."
        )
    ours, theirs = [words_of(task) for task in train], [words_of(task) for task in held_out]
    known: dict[tuple[str, ...], int] = {}
    for index, task in enumerate(train):
        known.setdefault((*ours[index], repr(task.truth)), index)
    openings = {tuple(message.text for message in task.opening()) for task in train}
    # otherwise many tasks share their words, and a number may be all that distinguishes them
    telling = len(openings) * 10 > len(train) * 9
    overlaps: dict[int, Overlap] = {}
    unsure: set[int] = set()
    for index, task in enumerate(held_out):
        if (twin := known.get((*theirs[index], repr(task.truth)))) is None:
            continue
        if telling or _numbers(task) == _numbers(train[twin]):
            overlaps[index] = Overlap("same", train[twin].id, task.id, 1.0)
        else:
            unsure.add(index)
    left, right = _telling(ours, theirs)
    for i, j in _candidates(left, right):
        if j in unsure or (j in overlaps and overlaps[j].kind == "same"):
            continue
        similarity = len(left[i] & right[j]) / len(left[i] | right[j])
        if similarity >= threshold and (j not in overlaps or similarity > overlaps[j].similarity):
            overlaps[j] = Overlap("near", train[i].id, held_out[j].id, similarity)
    ordered = sorted(overlaps.values(), key=lambda o: (o.kind != "same", -o.similarity, o.held_out))
    return Contamination(ordered, len(train), len(held_out), len(unsure))


@dataclass(frozen=True, slots=True)
class CorpusHits:
    """What was found in a corpus of a task set's held-out tasks.

    Attributes:
        tasks: the matching words, by the id of each held-out task that was found.
        canaries: number of lines that contain the canary. `held_out`, `lines`: number of tasks and lines searched.
    """

    tasks: Mapping[str, str]
    canaries: int
    held_out: int
    lines: int


def search_corpus(held_out: Sequence[Task], lines: Iterable[str], *, canary: str, n: int = 13) -> CorpusHits:
    """Search lines of training text for runs of `n` words that occur in held-out tasks, and for the canary.

    A task of fewer than `n` words is searched for as a whole, if it has at least `n` / 2. A run of words that is in
    more than 2 % of the held-out tasks, and in more than two of them, belongs to a template and is skipped.
    Source: Brown et al. 2020, arXiv:2005.14165, appendix C (13 words).
    """
    texts = [words_of(task) for task in held_out]
    first_words: dict[tuple[str, ...], str] = {}
    usual = max(2, len(held_out) // 50)
    lengths = {min(n, len(words)) for words in texts if len(words) * 2 >= n}
    for length in lengths:
        runs = [set(_runs(words, length)) if min(n, len(words)) == length else set() for words in texts]
        often = Counter(run for task_runs in runs for run in task_runs)
        for task, task_runs in zip(held_out, runs, strict=True):
            for run in task_runs:
                if often[run] <= usual:
                    first_words.setdefault(run, task.id)
    hits: dict[str, str] = {}
    canaries = count = 0
    for line in lines:
        count += 1
        canaries += canary in line
        words = _words(line)
        for length in lengths:
            for run in _runs(words, length):
                if (name := first_words.get(run)) is not None:
                    hits.setdefault(name, " ".join(run))
    return CorpusHits(hits, canaries, len(held_out), count)


def words_of(task: Task) -> list[str]:
    """Return the casefolded words of a task's opening and parameters in order, without bookkeeping parameters."""
    parts = [message.text for message in task.opening()]
    parts += [str(value) for value in _values(task.parameters)]
    return _words(" ".join(parts)[:MAX_CHARS])


def _words(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def _values(parameters: Mapping[str, Any]) -> Iterator[object]:
    for key in sorted(parameters):
        value = parameters[key]
        if isinstance(value, Mapping):
            yield from value  # names of things, such as tickets or files, are content
            yield from _values(value)
        elif key not in Task.BOOKKEEPING or isinstance(value, (list, tuple)):
            yield value


def _numbers(task: Task) -> dict[str, Any]:
    return {key: value for key, value in task.parameters.items() if key in Task.BOOKKEEPING}


def _runs(words: Sequence[str], n: int) -> Iterator[tuple[str, ...]]:
    return (tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def _telling(
    ours: Sequence[Sequence[str]], theirs: Sequence[Sequence[str]]
) -> tuple[list[frozenset[int]], list[frozenset[int]]]:
    """Return each task's distinctive word triples, as numbers; an empty set for tasks with too few of them."""
    numbers: dict[tuple[str, ...], int] = {}
    sets = [
        [frozenset(numbers.setdefault(run, len(numbers)) for run in _runs(words, SHINGLE)) for words in side]
        for side in (ours, theirs)
    ]
    often = np.zeros(len(numbers) + 1, np.int64)
    for grams in sets[0]:
        often[list(grams)] += 1
    usual = max(5, len(ours) // 50)
    rare = [[frozenset(n for n in grams if often[n] <= usual) for grams in side] for side in sets]
    empty: frozenset[int] = frozenset()
    left, right = ([grams if len(grams) >= FEWEST_TELLING else empty for grams in side] for side in rare)
    return left, right


def _candidates(left: Sequence[frozenset[int]], right: Sequence[frozenset[int]]) -> set[tuple[int, int]]:
    """Return the pairs of sets whose signatures are equal in at least one band."""
    left_signatures, right_signatures = _signatures(left), _signatures(right)
    pairs: set[tuple[int, int]] = set()
    for band in range(BANDS):
        rows = slice(band * ROWS, (band + 1) * ROWS)
        buckets: dict[bytes, list[int]] = defaultdict(list)
        for i, signature in enumerate(left_signatures[:, rows]):
            if left[i]:
                buckets[signature.tobytes()].append(i)
        for j, signature in enumerate(right_signatures[:, rows]):
            if right[j]:
                pairs.update((i, j) for i in buckets.get(signature.tobytes(), ()))
    return pairs


def _signatures(sets: Sequence[frozenset[int]]) -> NDArray[np.uint64]:
    """Return [sets, BANDS * ROWS] the smallest hash of each set per hash function (multiply-shift, 64 bits)."""
    rng = np.random.default_rng(0)
    factors = rng.integers(0, 2**63, BANDS * ROWS, np.uint64) * np.uint64(2) + np.uint64(1)
    shifts = rng.integers(0, 2**63, BANDS * ROWS, np.uint64)
    signatures = np.full((len(sets), BANDS * ROWS), np.iinfo(np.uint64).max, np.uint64)
    for i, numbers_of_task in enumerate(sets):
        if numbers_of_task:
            numbers = np.fromiter(numbers_of_task, np.uint64, len(numbers_of_task)) + np.uint64(1)
            numbers = (numbers ^ (numbers >> np.uint64(7))) * np.uint64(0x9E3779B97F4A7C15)
            mixed = numbers ^ (numbers >> np.uint64(32))
            signatures[i] = ((mixed[:, None] * factors + shifts) >> np.uint64(16)).min(axis=0)
    return signatures
