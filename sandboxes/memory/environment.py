"""`agentgym/memory-v1`: an agent takes notes in several sessions, and answers a question from the notes at the end."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym import Checkpoint, Environment, Message, Task, TaskError, ToolError, tool
from agentgym.environment import HasContexts

from .bank import MemoryBank, words

MANAGER, ANSWERER = "manager", "answerer"
CAPACITY = 12
INSTRUCTION = (
    "You keep a memory of at most {capacity} entries. Later a question about these people is answered from the memory "
    "alone. Read the session, add, update or delete entries, and call end_session: you will not see the session again."
)
ANSWER = "Answer from the memory alone: search it, and answer by a word or a number."


class Memory(HasContexts, Environment):
    """The agent, as `manager`, reads sessions one after another, each in a new context; a question follows.

    Only the memory's entries are kept from one context to the next. The question is asked in a last context, in the
    role `answerer`, whose tools are `search` and `answer`. In memory, not isolated.

    Task parameters: `sessions`, texts; `question`; `capacity`, the memory's largest number of entries (12); `needed`,
    which `potential` reads: for each fact that the answer needs, the words of an entry that states it; `instructions`,
    texts by role that replace the default ones.
    """

    reward = "answer_match"
    task_set = "memory/short-v1"
    public_truth = ("answer",)
    bank: MemoryBank
    _sessions: Sequence[str]
    _session: int
    _question: str
    _capacity: int
    _needed: Sequence[set[str]]
    _instructions: Mapping[str, str]

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Begin with the first session and an empty memory. Raises: TaskError."""
        self.ended = False
        self._read(task)
        self.bank = MemoryBank(self._capacity)
        self._session = 0
        self._offer_tools()
        return [Message("user", self._context())]

    def _read(self, task: Task) -> None:
        parameters = task.parameters
        sessions, question = parameters.get("sessions"), parameters.get("question")
        if not _are_texts(sessions) or not sessions or not isinstance(question, str):
            raise TaskError(
                f"{task.id}: memory-v1 needs parameters['sessions'], a list of texts, and parameters['question'], a "
                "text."
            )
        capacity = parameters.get("capacity", CAPACITY)
        if isinstance(capacity, bool) or not isinstance(capacity, int) or capacity < 1:
            raise TaskError(f"{task.id}: parameters['capacity'] must be a number of entries above 0, not {capacity!r}.")
        needed = parameters.get("needed", [])
        if not isinstance(needed, list | tuple) or not all(map(_are_texts, needed)):
            raise TaskError(f"{task.id}: parameters['needed'] must have a list of words for each fact.")
        instructions = parameters.get("instructions", {})
        defaults = {MANAGER: INSTRUCTION.format(capacity=capacity), ANSWERER: ANSWER}
        if not isinstance(instructions, Mapping) or not defaults.keys() >= instructions.keys():
            raise TaskError(
                f"{task.id}: parameters['instructions'] may have texts only for {MANAGER!r} and {ANSWERER!r}."
            )
        if not _are_texts(list(instructions.values())):
            raise TaskError(f"{task.id}: parameters['instructions'] must have only texts, not {dict(instructions)!r}.")
        self._instructions = {**defaults, **instructions}
        self._sessions = sessions
        self._question, self._capacity = question, capacity
        self._needed = [words(" ".join(fact)) for fact in needed]

    @tool(inline=True)
    def add(self, text: str) -> str:
        """Write a new entry into the memory."""
        return f"Added as entry {self.bank.add(text)}."

    @tool(inline=True)
    def update(self, entry: int, text: str) -> str:
        """Replace the text of an entry."""
        self.bank.update(entry, text)
        return f"Entry {entry} is updated."

    @tool(inline=True)
    def delete(self, entry: int) -> str:
        """Delete an entry."""
        self.bank.delete(entry)
        return f"Entry {entry} is deleted."

    @tool(inline=True)
    def end_session(self) -> str:
        """Put the session away and go on with the next one, or with the question."""
        if self.changes_context:
            raise ToolError("This session has ended; the next one comes with your next turn.")
        self._session += 1
        self._offer_tools()
        opening = self._context()
        self.begin_context([Message("user", opening)])
        return opening

    @tool(inline=True)
    def search(self, query: str) -> str:
        """Search the memory. Returns the entries that share most words with the query."""
        return "\n".join(self.bank.search(query)) or "Nothing was found."

    @tool(final=True, inline=True)
    def answer(self, text: str) -> str:
        """Answer the question."""
        return "Answered."

    async def respond(self, message: Message) -> list[Message]:
        """Treat a message without a call as the answer to the question; before the question, it has no effect."""
        if self.role == ANSWERER:
            return []
        return [Message("user", "Call add, update, delete or end_session.")]

    async def potential(self) -> float:
        """Return the share of the needed facts that an entry states; 1 if no fact is needed."""
        entries = [words(text) for text in self.bank.entries.values()]
        held = [any(fact <= entry for entry in entries) for fact in self._needed]
        return sum(held) / len(held) if held else 1.0

    async def state_key(self) -> str:
        text = json.dumps([self._session, self.bank.next_number, self.bank.entries])
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]

    async def checkpoint(self) -> Checkpoint:
        bank = self.bank
        entries = {str(number): text for number, text in bank.entries.items()}
        return Checkpoint({"session": self._session, "entries": entries, "next_number": bank.next_number})

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        await self.reset(task, seed=seed)
        data: Mapping[str, Any] = checkpoint.data
        self._session = data["session"]
        entries = {int(number): text for number, text in data["entries"].items()}
        self.bank = MemoryBank(self._capacity, entries, data["next_number"])
        self._offer_tools()

    def _offer_tools(self) -> None:
        """Give the agent its current role, and the tools of this role."""
        is_over = self._session >= len(self._sessions)
        self.role = ANSWERER if is_over else MANAGER
        mine = ("search", "answer") if is_over else ("add", "update", "delete", "end_session")
        if tuple(self.tools) != mine:
            self.tools = {name: type(self).tools[name] for name in mine}

    def _context(self) -> str:
        instruction = self._instructions[self.role]
        if self.role == ANSWERER:
            return f"{instruction}\n\nQuestion: {self._question}"
        heading = f"Session {self._session + 1} of {len(self._sessions)}"
        return f"{instruction}\n\nMemory:\n{self.bank}\n\n{heading}:\n{self._sessions[self._session]}"


def _are_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)
