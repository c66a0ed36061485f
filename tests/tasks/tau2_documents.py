"""A small domain of our own, in the layout of tau2-bench, whose agent finds its tools in documents."""

from __future__ import annotations

import json

from text_files import write_files

CODE, DATA = "src/tau2/domains/vault_knowledge", "data/tau2/domains/vault_knowledge"

TOOLS = '''
import json
from typing import Dict, Optional

from tau2.environment.db import DB
from tau2.environment.toolkit import (
    DISCOVERABLE_ATTR,
    MUTATES_STATE_ATTR,
    ToolKitBase,
    ToolKitType,
    ToolType,
    is_discoverable_tool,
    is_tool,
)


class VaultDB(DB):
    boxes: Dict[str, str]
    called: Dict[str, int]


class SearchMixin(metaclass=ToolKitType):
    @is_tool(ToolType.READ)
    def search(self, query: str) -> str:
        """Search the rules."""
        found = self.pipeline.retrieve(query, return_timing=True)
        lines = [f"{self.pipeline.get_document_title(name)} ({score:.3f})" for name, score in found.results]
        return "; ".join(lines) + f" in {found.timing.total_ms:.0f} ms"


class VaultTools(ToolKitBase):
    def __init__(self, db):
        super().__init__(db)
        self.logged = set()

    @is_tool(ToolType.WRITE)
    def call_discoverable_agent_tool(self, agent_tool_name: str, arguments: str = "{}") -> str:
        """Call a tool that the rules name."""
        if not self.has_discoverable_tool(agent_tool_name):
            return f"Error: Unknown agent tool {agent_tool_name!r}."
        method = self.get_discoverable_tools()[agent_tool_name]
        if getattr(method, MUTATES_STATE_ATTR, False) or agent_tool_name in self.logged:
            self.db.called[agent_tool_name] = 1
        return method(**json.loads(arguments, parse_int=float))

    @is_discoverable_tool(ToolType.WRITE)
    def open_box_0417(self, box: str) -> str:
        """Open a box."""
        self.db.boxes[box] = "open"
        return "It is open."

    @is_discoverable_tool(ToolType.READ)
    def look_into_box_0031(self, box: str) -> str:
        """Say whether a box is open."""
        return self.db.boxes[box]


class SearchedVaultTools(SearchMixin, VaultTools):
    def __init__(self, db, pipeline):
        super().__init__(db)
        self.pipeline = pipeline


class VaultUserTools(ToolKitBase):
    @is_tool(ToolType.WRITE)
    def knock(self, box: str) -> str:
        """Knock at a box."""
        self.db.boxes[box] += ", knocked at"
        return self.db.boxes[box]

    @is_tool(ToolType.READ)
    def listen(self) -> str:
        """Hear nothing."""
        return ""
'''

ENVIRONMENT = """
import json
from typing import Optional

from tau2.data_model.tasks import Task
from tau2.domains.vault_knowledge.tools import SearchedVaultTools, VaultDB, VaultTools, VaultUserTools
from tau2.environment.environment import Environment
from tau2.knowledge.embeddings_cache import get_cached_docs, set_cached_docs
from tau2.utils.utils import DATA_DIR

FOLDER = DATA_DIR / "tau2" / "domains" / "vault_knowledge"
KINDS = {"bm25": "bm25", "grep_only": "grep", "bm25_grep": "bm25", "embeddings": "cosine"}


def get_environment(retrieval_variant: Optional[str] = None, task: Optional[Task] = None, read_log_allowlist=None):
    from tau2.knowledge.pipeline import RetrievalPipeline

    db = VaultDB.load(FOLDER / "db.json")
    if retrieval_variant in ("no_knowledge", "golden_retrieval"):
        tools = VaultTools(db)
    else:
        pipeline = RetrievalPipeline({"retriever": {"type": KINDS[retrieval_variant], "params": {"top_k": 2}}})
        documents = get_cached_docs()
        if documents is None:
            documents = [json.loads(path.read_text()) for path in (FOLDER / "documents").glob("*.json")]
            set_cached_docs(documents)
        pipeline.index_documents(documents)
        tools = SearchedVaultTools(db, pipeline)
    tools.logged = read_log_allowlist or set()
    policy = (FOLDER / "prompts" / "components" / "header.md").read_text()
    return Environment("vault_knowledge", policy, tools, VaultUserTools(db))
"""

DOCUMENTS = {
    "boxes": "A box is opened by open_box_0417, if its owner asks. Whether a box is open, look_into_box_0031 says.",
    "hours": "The vault is open by day. Boxes stay closed at night.",
    "coats": "Coats hang beside the door. Coats are not insured.",
}


def action(name, requestor="assistant", **arguments):
    return {"action_id": name, "name": name, "requestor": requestor, "arguments": arguments}


OPENS = action("call_discoverable_agent_tool", agent_tool_name="open_box_0417", arguments='{"box": "a"}')
LOOKS = action("call_discoverable_agent_tool", agent_tool_name="look_into_box_0031", arguments='{"box": "a"}')
TASKS = [
    {
        "id": "open",
        "user_scenario": {"persona": None, "instructions": "You want box a opened."},
        "initial_state": None,
        "evaluation_criteria": {"actions": [OPENS], "communicate_info": [], "reward_basis": ["DB"]},
        "user_tools": [],
        "required_documents": ["boxes"],
    },
    {
        "id": "knock",
        "user_scenario": {"instructions": "You want to know of box a, and knock at it."},
        "initial_state": {"initialization_data": {"agent_data": {"boxes": {"a": "locked"}}, "user_data": None}},
        "evaluation_criteria": {"actions": [LOOKS, action("knock", "user", box="a")], "reward_basis": ["DB"]},
        "user_tools": ["knock"],
        "required_documents": ["boxes"],
    },
]

FILES = {
    f"{CODE}/__init__.py": "",
    f"{CODE}/tools.py": TOOLS,
    f"{CODE}/environment.py": ENVIRONMENT,
    f"{DATA}/db.json": json.dumps({"boxes": {"a": "shut"}, "called": {}}),
    f"{DATA}/prompts/components/header.md": "Open boxes of those who own them.",
    f"{DATA}/tasks.json": json.dumps(TASKS),
    f"{DATA}/tasks/task_001.json": json.dumps(TASKS[0]),
    **{
        f"{DATA}/documents/{name}_(general)_001.json": json.dumps({"id": name, "title": name.title(), "text": text})
        for name, text in DOCUMENTS.items()
    },
}


def write_vault(folder):
    """Write a clone that has the domain alone."""
    return write_files(folder, FILES)
