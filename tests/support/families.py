"""The table of families in docs/models.md: what agentgym makes of a chat template of each. `make families` writes it.

The templates are TRL's, and for the families that TRL has none of, minimal ones of our own with the published marks
(family_templates/). The tokenizers are small ones that know these marks.
"""

from __future__ import annotations

import random
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from template_tokenizers import tokenizer_of

from agentgym.errors import PolicyError
from agentgym.messages import Call, Message
from agentgym.policy import TemplateRenderer
from agentgym.policy.formats.choice import call_format_for
from agentgym.policy.template_check import check_template

OWN = "own"
FAMILIES = {  # the template of each: its name in TRL, or own/ and the name in family_templates
    "Qwen2.5, Qwen2.5-Coder": "qwen2_5",
    "Qwen3": "qwen3",
    "Qwen3-Coder": "own/qwen3_coder",
    "Qwen3.5": "qwen3_5_think",
    "Llama 3.1": "llama3_1",
    "Llama 3.2, 3.3": "llama3_2",
    "Mistral Nemo": "own/mistral_nemo",
    "Mistral Small 3.2, Magistral": "own/mistral_small",
    "Gemma 3": "own/gemma3",
    "Gemma 4": "gemma4_v5",
    "gpt-oss": "gptoss",
    "DeepSeek V3": "deepseekv3",
    "DeepSeek V3.1": "own/deepseek_v31",
    "GLM 4.5": "glm4moe",
    "Phi-4-mini": "own/phi4_mini",
    "Kimi K2": "own/kimi_k2",
    "MiniMax M2": "own/minimax_m2",
    "SmolLM3": "own/smollm3",
    "Command R7B": "own/cohere",
    "LFM2.5": "lfm2_2_5",
    "Nemotron 3": "nemotron_3_nano",
}
DOCUMENT = Path(__file__).parents[2] / "docs" / "models.md"
BEGIN, END = "<!-- families: written by make families -->", "<!-- end of families -->"
ROUND_TRIPS = 1500
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Look.",
        "parameters": {
            "type": "object",
            "properties": {
                "text": {"type": "string"},
                "count": {"type": "integer"},
                "share": {"type": "number"},
                "deep": {"type": "boolean"},
                "rows": {"type": "array", "items": {"type": "integer"}},
                "more": {"type": "object"},
                "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            },
        },
    },
}
PIECES = [
    *(
        "a",
        "SELECT 1",
        " ",
        "\n",
        '"',
        "'",
        "\\",
        "{",
        "}",
        "[",
        "]",
        "<",
        ">",
        "&",
        "é",
        "日本",
        "🙂",
        "1",
        "true",
        "null",
    ),
    *(
        "</tool_call>",
        "<tool_call>",
        "<think>",
        "</think>",
        "<|im_end|>",
        "</parameter>",
        "</arg_value>",
        "[ARGS]",
        "```",
    ),
]


@dataclass(frozen=True)
class Family:
    """A row of the table: a family, its template and what the checks say."""

    name: str
    template: str
    call_format: str = ""
    tools_by: str = ""
    two_turns: str = ""
    ends: str = ""
    round_trip: str = ""
    reason: str = ""

    def row(self) -> str:
        """Return the row in Markdown."""
        source = "our own" if self.template.startswith(OWN) else "TRL's"
        if self.reason:
            return f"| {self.name} | {source} | not usable: {self.reason} | | | | |"
        ends = ", ".join(f"`{end}`".replace("|", "\\|") for end in self.ends.split())
        cells = [self.name, source, f"`{self.call_format}`", self.tools_by, ends, self.two_turns, self.round_trip]
        return f"| {' | '.join(cells)} |"


def family(name: str) -> Family:
    """Check a family's template, and play random calls through it."""
    template = FAMILIES[name]
    tokenizer = tokenizer_of(template)
    findings = {finding.check: finding for finding in check_template(tokenizer)}
    wrong = [finding for finding in findings.values() if not finding.ok]
    if wrong:
        reason = re.search(r"cannot be used, because it (.*?)\. ", wrong[0].detail)
        return Family(name, template, reason=reason[1] if reason else f"{wrong[0].check}: {wrong[0].detail}")
    renderer = TemplateRenderer(tokenizer, call_format_for(tokenizer))
    detail = findings["written as the template"].detail
    calls = re.match(r"two turns of (\d) calls, (\w+)", detail)
    two_turns = "the template writes none"
    if calls:
        two_turns = f"{calls[1]} call{'s' * (calls[1] != '1')}, {calls[2]} for {calls[2]}"
        two_turns += ", but for empty thoughts" * ("empty thoughts" in detail)
    return Family(
        name,
        template,
        renderer.call_format.name,
        "the call format" if "drops them" in findings["tools are told"].detail else "the template",
        two_turns,
        " ".join(dict.fromkeys(renderer.template.ends)),
        round_trip(renderer),
    )


def round_trip(renderer: TemplateRenderer) -> str:
    """Encode and read back random calls; return how many are read back equal, and how many the format refuses.

    Raises: AssertionError for a call that is read back as another one.
    """
    rng, equal, refused = random.Random(0), 0, 0
    while equal + refused < ROUND_TRIPS:
        count = min(rng.randint(1, 3), ROUND_TRIPS - equal - refused)
        calls = [Call("look", random_arguments(rng), f"call_{index}") for index in range(count)]
        message = renderer.numbered(Message("assistant", rng.choice(["", "I look."]), tuple(calls)), rng.randrange(9))
        try:
            ids = renderer.encode(message)
        except PolicyError:
            refused += len(calls)
            continue
        read = renderer.parse(ids, [TOOL])
        assert (read.calls, read.text) == (message.calls, message.text), (renderer.written(message), read)
        equal += len(calls)
    return f"{equal:,} equal" + (f", {refused:,} refused" if refused else "")


def random_arguments(rng: random.Random) -> dict[str, Any]:
    """Return arguments of the tool `look`, some of them left out."""

    def text() -> str:
        return "".join(rng.choices(PIECES, k=rng.randint(0, 5)))

    arguments: dict[str, Any] = {
        "text": text(),
        "count": rng.randint(-9, 10**12),
        "share": rng.choice([0.5, -1e-9, 3, 1e20]),
        "deep": rng.random() < 0.5,
        "rows": [rng.randint(0, 9) for _ in range(rng.randint(0, 3))],
        "more": {"a b": [None, {"c": text()}], "d": True},
        "note": rng.choice([None, f"n{text()}"]),
    }
    return {key: value for key, value in arguments.items() if rng.random() < 0.7}


def table() -> str:
    """Return the table in Markdown."""
    head = ["family", "template", "format", "tools are told by", "ends", "two turns", f"{ROUND_TRIPS:,} random calls"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    return "\n".join([*lines, *(family(name).row() for name in FAMILIES)])


def documented() -> str:
    """Return the table in the document."""
    return DOCUMENT.read_text().partition(BEGIN)[2].partition(END)[0].strip()


def main() -> None:
    """Write the table into the document."""
    text = DOCUMENT.read_text()
    before, _, rest = text.partition(BEGIN)
    DOCUMENT.write_text(f"{before}{BEGIN}\n{table()}\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    sys.exit(main())
