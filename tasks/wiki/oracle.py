"""Scripted players of the wiki's questions: the oracle answers them, the imperfect oracle reads a wrong fact on the
last page.

Both read the question and the tool results, never the truth. They keep no state: in each turn they replay the
conversation so far.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence

from agentgym import Call, Message, Task

from .relations import BY_NAME, Relation, chain_of, described, of_kind, start_of

Script = Callable[[Sequence[Message]], Message]
Play = Generator[Call, str, None]
_PASSAGE = re.compile(r'Doc \d+\(Title: "(.*?)"\) (.*)')
_RESULT = re.compile(r"^\d+\. \[(.+?)\]", re.MULTILINE)
_MAX_RESULTS = 6


def oracle(task: Task) -> Script:
    """Solve the task through its public tools."""
    start, chain = _start_and_chain(task)
    return _script(lambda: _play(start, chain, lambda relation: relation))


def retrieve_oracle(task: Task) -> Script:
    """Return the oracle for a plain retriever: it searches for every page on the path."""
    start, chain = _start_and_chain(task)
    return _script(lambda: _retrieve(start, chain))


def imperfect_oracle(task: Task) -> Script:
    """Follow the links as the oracle does, but answer with another fact of the last page.

    The requested fact determines which other fact, so a policy that imitates both players chooses between two answers.
    """
    start, chain = _start_and_chain(task)

    return _script(lambda: _play(start, chain, _another))


def lookup_oracle(task: Task) -> Script:
    """Look up one fact of a named page: search for it, and open the page only if the result does not show it."""
    start, (name,) = _start_and_chain(task)
    return _script(lambda: _look_up(start, BY_NAME[name]))


def imperfect_lookup_oracle(task: Task) -> Script:
    """Look up another fact of the same page and answer with it."""
    start, (name,) = _start_and_chain(task)
    return _script(lambda: _look_up(start, _another(BY_NAME[name])))


def answer(task: Task) -> Message:
    """Return the message that gives the right answer, made from the truth."""
    return Message("assistant", "", (Call("answer", {"text": task.truth["answer"]}),))


def _start_and_chain(task: Task) -> tuple[str, tuple[str, ...]]:
    """Return the entity at which the question starts, by name or description, and its chain of relations."""
    chain = chain_of(task.tags)
    start = start_of(chain, task.prompt)
    if start is None:
        raise ValueError(f"{task.id}: the prompt {task.prompt!r} does not belong to the chain {'.'.join(chain)}.")
    return start, chain


def _another(relation: Relation) -> Relation:
    facts = of_kind(relation.subject)
    return facts[(facts.index(relation) + 1) % len(facts)]


def _script(begin: Callable[[], Play]) -> Script:
    def script(messages: Sequence[Message]) -> Message:
        play = begin()
        call = next(play)
        for message in messages:
            if message.role == "tool":
                call = play.send(message.text)
        return Message("assistant", "", (call,))

    return script


def _play(start: str, chain: tuple[str, ...], last: Callable[[Relation], Relation]) -> Play:
    """Find the page of the start, follow the links of the chain, and answer with the fact on the last page that `last`
    chooses.
    """
    text, title = yield from _find(start)
    titles = [title]
    for name in chain[:-1]:
        target = BY_NAME[name].read(text, title)
        if target is None:
            break
        text, title = (yield Call("follow", {"link": target})), target
        titles.append(title)
    fact = last(BY_NAME[chain[-1]]).read(text, title)
    while True:
        yield Call("answer", {"text": fact or "unknown", "sources": titles})


def _look_up(start: str, relation: Relation) -> Play:
    """Search for the fact and answer with it."""
    fact = relation.read((yield Call("search", {"query": f"{start} {relation.words}"})), start)
    if fact is None:
        text, _ = yield from _find(start)
        fact = relation.read(text, start)
    while True:
        yield Call("answer", {"text": fact or "unknown"})


def _find(start: str) -> Generator[Call, str, tuple[str, str]]:
    """Open the page of a name or a description. Returns: its text and title."""
    facts = described(start)
    for page in range(1, _MAX_RESULTS + 1):
        results = yield Call("search", {"query": start} if page == 1 else {"query": start, "page": page})
        for title in _RESULT.findall(results):
            if facts is None and title != start:
                continue
            text = yield Call("open", {"page": title})
            if facts is None or all(relation.read(text, title) == fact for relation, fact in facts[1]):
                return text, title
    return "", start


def _retrieve(start: str, chain: tuple[str, ...]) -> Play:
    """Search for the start and for the object of each relation; answer with the last one."""
    subject = start
    for name in chain:
        passages = dict(_PASSAGE.findall((yield Call("search", {"query": subject}))))
        subject = BY_NAME[name].read(passages.get(subject, ""), subject) or "unknown"
    while True:
        yield Call("answer", {"text": subject})
