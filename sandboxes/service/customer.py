"""The scripted customer: answers questions, agrees, uses its telephone as told, and leaves.

It looks for key words in the agent's messages, so it needs no model. It depends only on the conversation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentgym import Call, Message
from agentgym.methods.users import END

LOST = "I am not sure what you mean. Can you help me with what I asked for?"
MAX_LOST = 3
SETTINGS = {"airplane mode": "set_airplane_mode", "mobile data": "set_mobile_data", "roaming": "set_roaming"}
_AGREE = re.compile(r"\bconfirm|\bshall i\b|\bgo ahead\b|\bproceed\b|\bagree\b|\byes or no\b|\bwould you like me\b")
_DONE = re.compile(r"\banything else\b")


def customer(wishes: Mapping[str, Any]) -> Callable[[Sequence[Message]], Message | str]:
    """Return the script of a customer.

    Args:
        wishes: `requests`, sentences: the conversation begins with the first, and the customer says the next one when
            the previous request is done or refused. `facts`, the customer's answers by a key word of the agent's
            question; `request_facts` (optional), further facts for each request, which hold until the next request.
    Raises: ValueError if `request_facts` are given and their number differs from that of the `requests`.
    """
    requests: list[str] = list(wishes["requests"])
    known: dict[str, str] = dict(wishes["facts"])
    of_request: list[dict[str, str]] = [dict(facts) for facts in wishes.get("request_facts", [{}] * len(requests))]
    if len(of_request) != len(requests):
        raise ValueError(
            f"there are {len(of_request)} request_facts for {len(requests)} requests, but one is needed for each"
        )

    def script(messages: Sequence[Message]) -> Message | str:
        if messages[-1].role == "tool":
            return f"My telephone says: {messages[-1].text}."
        text = " ".join(messages[-1].text.casefold().split())
        own = [message.text for message in messages if message.role == "assistant"]
        if _DONE.search(text):
            remaining = [request for request in requests if request not in own]
            return remaining[0] if remaining else f"No, that is all. Thank you. {END}"
        current = max((number for number, request in enumerate(requests) if request in own), default=0)
        facts = {**known, **of_request[current]}
        if (call := _use_of_phone(text)) is not None and "telephone" in facts:
            return Message("assistant", "", (call,))
        answers = [answer for word, answer in facts.items() if word != "telephone" and re.search(rf"\b{word}", text)]
        if _AGREE.search(text):
            answers.insert(0, "Yes, please.")
        if answers:
            return " ".join(dict.fromkeys(answers))
        is_lost = own[1 - MAX_LOST :].count(LOST) == MAX_LOST - 1
        return f"I will try another time. {END}" if is_lost else LOST

    return script


def _use_of_phone(text: str) -> Call | None:
    """Return the action on the telephone that a text tells the customer to take."""
    for words, name in SETTINGS.items():
        if match := re.search(rf"\b(?:turn|switch) (?:{words} (on|off)|(on|off) {words})\b", text):
            return Call(name, {"on": (match[1] or match[2]) == "on"})
    return Call("look", {}) if re.search(r"\b(?:look at|check|read)\b.*\btelephone\b", text) else None
