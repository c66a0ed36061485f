"""Read the domains of tau2-bench from a clone that the user has: tools, data, policies, and tasks with hidden goals.

Source: Barres et al. 2025, arXiv:2506.07982; MIT.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentgym import Call, Message, Split, Task, TaskError, TaskSet, load

from .items import read_items, report_left_out

NAME, ENVIRONMENT = "service/tau2-bench-v1", "agentgym/tau2-v1"
FOLDERS = ("data/tau2/domains", "tau2/data/tau2/domains")
"""The folder of the domains: in a clone, and in the package built from it."""
SPLITS: Mapping[str, Split] = {"train": "train", "test": "held_out"}
PARTS, JUDGED = frozenset({"DB", "COMMUNICATE", "ENV_ASSERTION", "ACTION"}), "NL_ASSERTION"
DEFAULT_BASIS = ("DB", "COMMUNICATE")
RETRIEVAL, OF_TASK, LOGGED = "retrieval_variant", "golden_retrieval", "read_log_allowlist"
"""Options of domains with documents, and the retrieval whose policy holds the documents of one task. The record that is
judged has a reading tool that the agent discovers only if the published actions call it, so `LOGGED` names those.
"""
SILENCE_PAYS, WITHOUT_JUDGE = "silence_pays", "without_nl_assertions"
"""Two tags: of tasks that reward an agent for doing nothing, and of tasks whose reward lacks the part that needs a
model.
"""


def load_tau2(
    path: str | Path,
    *,
    domain: str = "",
    retrieval: str = "bm25_grep",
    ignore_nl_assertions: bool = False,
    leave_out_silence_pays: bool = False,
) -> TaskSet:
    """The tasks of a clone of tau2-bench, as tasks of `agentgym/tau2-v1`.

    The published splits `train` and `test` become train and held_out; a task in neither of them is left out. All tasks
    of a domain without these splits become held_out. The files are read, not run, except for a domain's tools: the
    published actions are made once, in a process of this host, to find the resulting state.

    Args:
        path: the clone, or a folder with the package `tau2` and the data.
        domain: the only domain that is read, such as `airline`; by default all.
        retrieval: how the agent of a domain with documents searches in them: `bm25_grep`, `bm25`, `grep_only`; or
            `full_kb`, in which the policy holds them all, or `no_knowledge`. Those that need a model cannot be had.
        ignore_nl_assertions: a task whose score needs a model that judges the conversation (`NL_ASSERTION`) is left out
            by default. If true, it is imported without that part of the score, with the tag `without_nl_assertions`.
        leave_out_silence_pays: leave out tasks that reward an agent for a message without any call. By default they are
            included, as published, with the tag `silence_pays`.
    Raises: TaskError naming the file, the task and its fault, or saying that the folder contains no domain.
    """
    path = Path(path).absolute()
    everything = [each for data in FOLDERS for each in sorted((path / data).glob(f"{domain or '*'}/"))]
    folders = [folder for folder in everything if (folder / "tasks.json").is_file()]
    if not folders:
        raise TaskError(
            f"{path} contains no domain of tau2-bench, {FOLDERS[0]}/{domain or '*'}/tasks.json. Give the folder of "
            "a clone of tau2-bench."
        )
    splits: dict[str, list[Task]] = {split: [] for split in SPLITS.values()}
    left_out = {folder.name: "it has no tasks.json" for folder in everything if folder not in folders}
    with load("environments", ENVIRONMENT).local_functions() as functions:
        for folder in folders:
            split_of = _split_of(folder)
            try:
                shared = _shared(path, folder.name, retrieval, functions)
            except TaskError as error:
                if domain:
                    raise
                left_out[folder.name] = str(error)
                continue
            for number, item in enumerate(read_items(folder / "tasks.json")):
                identity = f"{folder.name}/{item.get('id', number)}"
                try:
                    split = split_of.get(str(item["id"])) if split_of is not None else "held_out"
                    if split is None:
                        raise TaskError("it is neither in the split train nor in test")
                    task = _Item(identity, item, shared, ignore_nl_assertions).task(functions, split)
                    if leave_out_silence_pays and SILENCE_PAYS in task.tags:
                        raise TaskError("an agent that does nothing would be rewarded for it")
                    splits[split].append(task)
                except (KeyError, TypeError, ValueError, AttributeError) as error:
                    if not isinstance(error, TaskError):
                        message = f"{folder / 'tasks.json'}, task {number}: it is none of tau2-bench: {error!r:.200}."
                        raise TaskError(message) from error
                    left_out[identity] = str(error)
    report_left_out(path, left_out, sum(map(len, splits.values())))
    return TaskSet(NAME, splits, oracle=oracle)


def oracle(task: Task) -> list[Message]:
    """Return the published actions, including the customer's, and then a message with all required texts."""
    says = Message("assistant", " ".join(["It is done.", *task.truth["outputs"]]))
    messages = [
        Message("assistant", "", (Call(action["name"], action["arguments"], f"call_{number}"),))
        for number, action in enumerate(json.loads(task.truth["actions"]))
    ]
    return [*messages, says]


def _split_of(folder: Path) -> dict[str, Split] | None:
    """Return the split of each task of a domain; None if the domain publishes neither a train nor a test split.

    Raises: TaskError.
    """
    file = folder / "split_tasks.json"
    if not file.is_file():
        return None
    try:
        published = json.loads(file.read_text(encoding="utf-8-sig"))
        if not SPLITS.keys() & published.keys():
            return None
        return {str(name): split for key, split in SPLITS.items() for name in published.get(key, ())}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise TaskError(f"{file} cannot be read as splits of tau2-bench: {error!s:.200}.") from error


def _shared(source: Path, domain: str, retrieval: str, functions: Any) -> dict[str, Any]:
    """Return the parameters of all tasks of a domain. Raises: TaskError."""
    parameters: dict[str, Any] = {"source": str(source), "domain": domain}
    options = {RETRIEVAL: retrieval}
    try:
        (turn,) = functions.play({**parameters, "options": options}, [[("host.describe", [], {})]])
        described = json.loads(turn["texts"][0])
        if retrieval == OF_TASK and RETRIEVAL in described["options"]:
            raise ValueError(f"{retrieval} gives each task a policy of its own, which is not supported")
        names = [tool["name"] for tool in (*described["tools"], *described["user_tools"])]
        if doubled := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"agent and customer both have a tool {doubled!r}")
    except (ValueError, OSError) as error:
        raise TaskError(f"the domain {domain} of {source} cannot be loaded: {error!s:.300}") from error
    if RETRIEVAL in described["options"]:
        parameters["options"] = options
    tools = {"tools": described["tools"], "wiki": described["policy"]}
    return {**parameters, **tools, **({"user_tools": described["user_tools"]} if described["user_tools"] else {})}


class _Item:
    """A published task."""

    def __init__(
        self, identity: str, item: Mapping[str, Any], shared: Mapping[str, Any], ignore_nl_assertions: bool
    ) -> None:
        """Read an item. Raises: TaskError for an unsupported score; KeyError, TypeError, ValueError, AttributeError."""
        self.identity, self.item, self.shared = identity, item, shared
        criteria = item.get("evaluation_criteria") or {}
        basis = list(criteria.get("reward_basis") or DEFAULT_BASIS)
        self.tags = [str(shared["domain"])]
        if JUDGED in basis:
            basis.remove(JUDGED)
            if criteria.get("nl_assertions"):
                if not ignore_nl_assertions:
                    raise TaskError(f"its score needs a model that judges the conversation ({JUDGED})")
                self.tags.append(WITHOUT_JUDGE)
        if unknown := sorted(set(basis) - PARTS):
            raise TaskError(f"its reward_basis names {unknown}, which is not known")
        if not basis:
            raise TaskError(f"its reward_basis names only {JUDGED}")
        self.basis = basis
        self.outputs = [str(output) for output in criteria.get("communicate_info") or ()]
        self.checks = [
            {"env_type": check["env_type"], "func_name": check["func_name"], "arguments": dict(check["arguments"])}
            for check in criteria.get("env_assertions") or ()
        ]
        self.expected = [bool(check.get("assert_value", True)) for check in criteria.get("env_assertions") or ()]
        self.actions = [
            {
                "requestor": str(action.get("requestor") or "assistant"),
                "name": str(action["name"]),
                "arguments": dict(action["arguments"]),
                "compare_args": action.get("compare_args"),
            }
            for action in criteria.get("actions") or ()
        ]

    def task(self, functions: Any, split: Split) -> Task:
        """Make the task. Raises: TaskError if it cannot be played as published; KeyError, TypeError, ValueError."""
        known = {tool["name"] for tool in (*self.shared["tools"], *self.shared.get("user_tools", ()))}
        if unknown := next((action["name"] for action in self.actions if action["name"] not in known), None):
            raise TaskError(f"it uses the tool {unknown!r}, which does not exist")
        scenario = self.item["user_scenario"]
        parameters: dict[str, Any] = dict(self.shared)
        if "options" in parameters:
            called = {action["arguments"].get("agent_tool_name") for action in self.actions}
            parameters["options"] = {**parameters["options"], LOGGED: sorted(called - {None})}
        if "user_tools" in parameters and (own := self.item.get("user_tools")) is not None:
            parameters["user_tools"] = [tool for tool in parameters["user_tools"] if tool["name"] in own]
        if initial := _initial(self.item.get("initial_state") or {}):
            parameters["initial"] = initial
        if scenario.get("persona"):
            parameters["persona"] = str(scenario["persona"]).strip()
        if self.checks and "ENV_ASSERTION" in self.basis:
            parameters["checks"] = self.checks
        before, gold, done = self._end_states(parameters, functions)
        if not self._is_earned(done, gold, self.outputs, self.actions):
            raise TaskError("its published actions do not reach its full score")
        tags = [*self.tags, *([SILENCE_PAYS] if self._is_earned(before, gold, [], []) else [])]
        return Task(
            id=self.identity,
            environment=ENVIRONMENT,
            prompt=_wishes(scenario["instructions"]),
            parameters=parameters,
            truth={
                "basis": self.basis,
                "state": gold["state"],
                "outputs": self.outputs,
                "checks": self.expected,
                "actions": json.dumps(self.actions),
            },
            split=split,
            tags=tuple(tags),
            difficulty=float(len(self.actions)),
        )

    def _end_states(self, parameters: Mapping[str, Any], functions: Any) -> tuple[dict[str, Any], ...]:
        """Return the state with its checks three times: initially, after the published actions, and after the oracle.

        Raises: TaskError.
        """
        customers = {tool["name"] for tool in self.shared.get("user_tools", ())}
        check: list[Any] = [("host.check", [], {"checks": self.checks})]
        calls: list[Any] = [
            ("user." * (action["name"] in customers) + action["name"], [], action["arguments"])
            for action in self.actions
        ]
        try:
            run: list[Any] = [("host.run", [], {"actions": self.actions})]
            first, checked, gold, then = functions.play(parameters, [[], check, run, check])
            done = gold
            if customers:  # the shared state is synchronised after each call of the oracle
                done, then = functions.play(parameters, [calls, check])
        except ValueError as error:
            raise TaskError(f"its initial state cannot be reached: {error!s:.300}") from error
        before = {"state": first["state"], "checks": json.loads(checked["texts"][0])}
        return before, gold, {"state": done["state"], "checks": json.loads(then["texts"][0])}

    def _is_earned(
        self, end: Mapping[str, Any], gold: Mapping[str, Any], outputs: Sequence[str], actions: Sequence[Any]
    ) -> bool:
        """Return whether a final state `end`, said `outputs` and made `actions` earn the full reward.

        Commas in what was said are ignored.
        """
        parts = {
            "DB": end["state"] == gold["state"],
            "COMMUNICATE": all(output in outputs and "," not in output for output in self.outputs),
            "ENV_ASSERTION": end["checks"] == self.expected,
            "ACTION": all(action in actions for action in self.actions),
        }
        return all(parts[part] for part in self.basis)


def _wishes(instructions: Any) -> str:
    """Return the customer's instructions, from its parts or as one text. Raises: KeyError, TypeError."""
    if isinstance(instructions, str):
        return instructions.strip()
    parts = {
        "": instructions["reason_for_call"],
        "You know: ": instructions.get("known_info"),
        "You do not know: ": instructions.get("unknown_info"),
        "How you behave: ": instructions["task_instructions"],
    }
    return "\n\n".join(f"{name}{str(text).strip()}" for name, text in parts.items() if text)


def _initial(published: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the initial state to the environment's form. Raises: TaskError, KeyError, TypeError."""
    initial = {key: published[key] for key in ("initialization_data", "initialization_actions") if published.get(key)}
    history: Sequence[Mapping[str, Any]] = published.get("message_history") or ()
    if not history:
        return initial
    results = {row["id"]: str(row["content"]) for row in history if row["role"] == "tool"}
    messages, calls = [], []
    for row in history:
        own = row.get("tool_calls") or ()
        if (row["role"] == "user" and own) or row.get("requestor") == "user":
            raise TaskError("its message_history has calls of the customer")
        if any(call["id"] not in results for call in own):
            raise TaskError("its message_history has a call without a result")
        calls += [
            {
                "requestor": "assistant",
                "name": call["name"],
                "arguments": call["arguments"],
                "result": results[call["id"]],
            }
            for call in own
        ]
        messages.append(
            {
                "role": row["role"],
                "text": str(row.get("content") or ""),
                "calls": [{"name": call["name"], "arguments": call["arguments"], "id": call["id"]} for call in own],
                "call_id": row["id"] if row["role"] == "tool" else None,
            }
        )
    return {**initial, "calls": calls, "messages": messages}
