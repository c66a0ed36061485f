"""A small domain of our own in the layout of tau2-bench: what the published domains use, in a library."""

from __future__ import annotations

import json

from text_files import write_files

CODE, DATA = "src/tau2/domains/library", "data/tau2/domains/library"

PATHS = """
from tau2.utils.utils import DATA_DIR

FOLDER = DATA_DIR / "tau2" / "domains" / "library"
DB_PATH, USER_DB_PATH, POLICY_PATH = FOLDER / "db.json", FOLDER / "user_db.toml", FOLDER / "policy.md"
TASKS_PATH = FOLDER / "tasks.json"
"""

MODELS = '''
import datetime
from enum import Enum
from typing import Annotated, Dict, List, Literal, Optional, Union

from pydantic import BaseModel, Field
from tau2.environment.db import DB
from tau2.utils.pydantic_utils import BaseModelNoExtra

Shelf = Literal["history", "science"]


class CardStatus(str, Enum):
    ACTIVE = "active"
    BLOCKED = "blocked"


class Free(BaseModel):
    status: Literal["free"] = Field(description="It can be lent")


class Lent(BaseModel):
    status: Literal["lent"] = Field(description="Somebody has it")
    reader_id: str
    due: datetime.date = Field(description="Last day")


class Book(BaseModelNoExtra):
    """A book of the library"""

    title: str = Field(description="Its title")
    shelf: Shelf = Field(description="Where it stands")
    price: float = Field(description="What it costs to replace")
    state: Union[Free, Lent]
    tags: List[str] = Field(default_factory=list)


class Person(BaseModel):
    name: Annotated[str, Field(description="Full name")]


class Reader(Person):
    card: CardStatus = Field(CardStatus.ACTIVE, description="Whether the card opens the gate")
    books: list[str] = Field(description="What the reader has")
    joined: Optional[datetime.datetime] = Field(None, description="When")


class LibraryDB(DB):
    books: Dict[str, Book]
    readers: dict[str, Reader]


class Card(BaseModelNoExtra):
    number: str
    status: CardStatus = Field(default="active", validate_default=True)
    taps: int = 0


class LibraryUserDB(DB):
    card: Card = Field(default_factory=Card)
'''

TOOLS = '''
from copy import deepcopy
from datetime import date, timedelta
from typing import Optional

from loguru import logger
from tau2.domains.library.data_model import Book, CardStatus, Free, Lent, LibraryDB, Reader, Shelf
from tau2.environment.toolkit import ToolKitBase, ToolType, is_tool
from tau2.utils.titles import quoted


class LibraryTools(ToolKitBase):
    """The desk of the library."""

    db: LibraryDB

    def __init__(self, db: LibraryDB) -> None:
        super().__init__(db)

    @is_tool(ToolType.READ)
    def book_details(self, book_id: str) -> Book:
        """
        What the library knows of a book.

        Args:
            book_id: Its number, such as 'b1'.

        Raises:
            KeyError: If there is no such book.
        """
        return self.db.books[book_id]

    @is_tool(ToolType.READ)
    def find_books(self, shelf: Optional[Shelf] = None) -> list[Book]:
        """Books that are free.

        They may stand on any shelf.

        Args:
            shelf: The only shelf to look at.
        """
        books = deepcopy(list(self.db.books.values()))
        return [book for book in books if isinstance(book.state, Free) and shelf in (None, book.shelf)]

    @is_tool(ToolType.WRITE)
    def lend(self, book_id: str, reader_id: str, days: int = 14) -> Book:
        """
        Lend a book.

        Args:
            book_id: Its number.
            reader_id: Who takes it.
            days: For how long.
        """
        book = self.db.books[book_id]
        if not isinstance(book.state, Free):
            raise ValueError(f"{quoted(book.title)} is lent")
        logger.debug(book.model_dump_json(indent=2))
        book.state = Lent(status="lent", reader_id=reader_id, due=date(2026, 1, 1) + timedelta(days=days))
        self.db.readers[reader_id].books.append(book_id)
        return book

    @is_tool(ToolType.WRITE)
    def register(self, reader_id: str, reader: Reader | dict) -> Reader:
        """Register a reader."""
        self.db.readers[reader_id] = Reader(**reader) if isinstance(reader, dict) else reader
        return self.db.readers[reader_id]

    @is_tool(ToolType.WRITE)
    def unblock_card(self, reader_id: str) -> bool:
        """Let a card open the gate again."""
        self.db.readers[reader_id].card = CardStatus.ACTIVE
        return True

    @is_tool(ToolType.GENERIC)
    def transfer_to_human_agents(self, summary: str) -> str:
        """Hand over to a human."""
        return "Transfer successful"

    def block_card(self, reader_id: str) -> None:
        self.db.readers[reader_id].card = CardStatus.BLOCKED

    def assert_reader_has(self, reader_id: str, book_id: str) -> bool:
        return book_id in self.db.readers[reader_id].books
'''

USER_TOOLS = '''
from tau2.domains.library.data_model import Card, CardStatus, LibraryUserDB
from tau2.environment.toolkit import ToolKitBase, ToolType, is_tool


class LibraryUserTools(ToolKitBase):
    """What a reader has in its pocket."""

    db: LibraryUserDB

    @property
    def card(self) -> Card:
        return self.db.card

    @is_tool(ToolType.READ)
    def look_at_card(self) -> str:
        """Reads what stands on the card."""
        card = self.card.model_copy(deep=True)
        return f"Card {card.number}: {card.status.value}"

    @is_tool(ToolType.WRITE)
    def tap_card(self, gate: str = "north") -> str:
        """Holds the card to a gate."""
        self.card.taps += 1
        return "It opens." if self.card.status == CardStatus.ACTIVE else "It stays shut."

    def assert_taps(self, number: int) -> bool:
        return self.card.taps == number
'''

ENVIRONMENT = """
from pathlib import Path
from typing import Optional

from tau2.data_model.tasks import Task
from tau2.domains.library.data_model import LibraryDB, LibraryUserDB
from tau2.domains.library.tools import LibraryTools
from tau2.domains.library.user_tools import LibraryUserTools
from tau2.domains.library.utils import DB_PATH, POLICY_PATH, TASKS_PATH, USER_DB_PATH
from tau2.environment.environment import Environment
from tau2.utils import load_file


class LibraryEnvironment(Environment):
    def sync_tools(self):
        card = self.user_tools.db.card
        if card.number in self.tools.db.readers:
            card.status = self.tools.db.readers[card.number].card


def get_environment(db: Optional[LibraryDB] = None, solo_mode: bool = False) -> Environment:
    tools = LibraryTools(db or LibraryDB.load(DB_PATH))
    user_tools = LibraryUserTools(LibraryUserDB.load(USER_DB_PATH))
    return LibraryEnvironment("library", load_file(POLICY_PATH), tools, user_tools)


def get_tasks(task_split_name: Optional[str] = "base") -> list[Task]:
    return [Task.model_validate(task) for task in load_file(Path(TASKS_PATH))]
"""

DB = {
    "books": {
        "b1": {"title": "Rome", "shelf": "history", "price": 1200, "state": {"status": "free"}},
        "b2": {
            "title": "Fields",
            "shelf": "science",
            "price": 7.5,
            "tags": ["heavy"],
            "state": {"status": "lent", "reader_id": "r2", "due": "2026-01-09"},
        },
    },
    "readers": {
        "r1": {"name": "Ida", "books": [], "joined": "2025-03-01T10:00:00"},
        "r2": {"name": "Leo", "card": "active", "books": ["b2"]},
    },
}

TASKS = [
    {
        "id": "lend",
        "user_scenario": {
            "persona": None,
            "instructions": "You are Ida, r1. You want b1, and to know what it costs to replace.",
        },
        "evaluation_criteria": {
            "actions": [
                {"action_id": "0", "name": "book_details", "arguments": {"book_id": "b1"}},
                {"action_id": "1", "name": "lend", "arguments": {"book_id": "b1", "reader_id": "r1"}},
            ],
            "communicate_info": ["1200"],
            "nl_assertions": ["The agent is polite"],
        },
    },
    {
        "id": "gate",
        "user_scenario": {
            "persona": "You are in a hurry.",
            "instructions": {
                "domain": "library",
                "reason_for_call": "The gate stays shut, and you want b1.",
                "known_info": "You are Ida, r1.",
                "unknown_info": None,
                "task_instructions": "Tap your card when you are asked to.",
            },
        },
        "initial_state": {
            "initialization_data": {
                "agent_data": {"books": {"b1": {"price": 900}}},
                "user_data": {"card": {"taps": 1}},
            },
            "initialization_actions": [
                {"env_type": "assistant", "func_name": "block_card", "arguments": {"reader_id": "r1"}}
            ],
            "message_history": None,
        },
        "evaluation_criteria": {
            "actions": [
                {"action_id": "0", "requestor": "assistant", "name": "unblock_card", "arguments": {"reader_id": "r1"}},
                {
                    "action_id": "1",
                    "requestor": "user",
                    "name": "tap_card",
                    "arguments": {"gate": "south"},
                    "compare_args": [],
                },
                {
                    "action_id": "2",
                    "name": "lend",
                    "arguments": {"book_id": "b1", "reader_id": "r1", "days": 7},
                    "compare_args": ["book_id", "reader_id"],
                },
            ],
            "env_assertions": [
                {
                    "env_type": "assistant",
                    "func_name": "assert_reader_has",
                    "arguments": {"reader_id": "r1", "book_id": "b1"},
                },
                {"env_type": "user", "func_name": "assert_taps", "arguments": {"number": 1}, "assert_value": False},
            ],
            "reward_basis": ["ENV_ASSERTION", "ACTION"],
        },
    },
    {
        "id": "history",
        "user_scenario": {"instructions": "You are Leo, r2. You want b1 too."},
        "initial_state": {
            "message_history": [
                {"role": "user", "content": "Is my card all right?"},
                {
                    "role": "assistant",
                    "tool_calls": [{"id": "c", "name": "unblock_card", "arguments": {"reader_id": "r2"}}],
                },
                {"role": "tool", "id": "c", "content": '"True"'},
                {"role": "assistant", "content": "Yes. Anything else?"},
            ]
        },
        "evaluation_criteria": {
            "actions": [{"action_id": "0", "name": "lend", "arguments": {"book_id": "b1", "reader_id": "r2"}}],
            "reward_basis": ["DB", "NL_ASSERTION"],
        },
    },
    {
        "id": "refuse",
        "user_scenario": {"instructions": "You are Ida, r1. You want b2."},
        "evaluation_criteria": {
            "actions": [{"action_id": "0", "name": "book_details", "arguments": {"book_id": "b2"}}],
            "communicate_info": [],
        },
    },
    {
        "id": "kind",
        "user_scenario": {"instructions": "You are Ida, r1. You want b1 and a kind word."},
        "evaluation_criteria": {
            "actions": [{"action_id": "0", "name": "lend", "arguments": {"book_id": "b1", "reader_id": "r1"}}],
            "nl_assertions": ["The agent is kind"],
            "reward_basis": ["DB", "NL_ASSERTION"],
        },
    },
    {
        "id": "spare",
        "user_scenario": {"instructions": "You are Ida, r1. You want b1."},
        "evaluation_criteria": {
            "actions": [{"action_id": "0", "name": "lend", "arguments": {"book_id": "b1", "reader_id": "r1"}}]
        },
    },
]

SPLITS = {
    "train": ["lend", "gate"],
    "test": ["history", "refuse", "kind"],
    "base": ["lend", "gate", "history", "refuse", "kind"],
}

FILES = {
    "src/tau2/utils/titles.py": "def quoted(title):\n    return f'<{title}>'\n",
    f"{CODE}/__init__.py": "",
    f"{CODE}/utils.py": PATHS,
    f"{CODE}/data_model.py": MODELS,
    f"{CODE}/tools.py": TOOLS,
    f"{CODE}/user_tools.py": USER_TOOLS,
    f"{CODE}/environment.py": ENVIRONMENT,
    f"{DATA}/policy.md": "Lend what is free to readers whose card is active.",
    f"{DATA}/user_db.toml": '[card]\nnumber = "r1"',
    f"{DATA}/db.json": json.dumps(DB),
    f"{DATA}/tasks.json": json.dumps(TASKS),
    f"{DATA}/split_tasks.json": json.dumps(SPLITS),
}


def write_library(folder):
    """Write a clone that has the domain alone."""
    return write_files(folder, FILES)
