"""`judged_spans`: a chat model quotes right and wrong pieces of each turn's text, which become spans."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from agentgym import Reward, Trajectory, Turn
from agentgym.trajectory import Span

from .chat_judge import ChatJudge
from .model_verdicts import JudgeConfig

VALUES = {"right": 1.0, "wrong": -1.0}
CRITICISE = (
    "An agent that works on TASK wrote TEXT, and its tools answered with RESULT. Which pieces of TEXT are wrong and "
    "lead away from a solution, and which are right and lead to one? Quote each piece as short as it can be."
)


class JudgedSpans(Reward):
    """Spans on the pieces of a turn that a chat model quotes, of value 1 if right and -1 if wrong. No components.

    The wrapper `span_weighted(turns='signed')` then gives the credit of a rewarded turn to its right pieces, and the
    blame for a punished one to its wrong pieces. A quote that does not occur exactly once in the text is dropped. The
    judge is asked once per text; its remarks are not recorded.

    Args:
        judge: a Policy, the name and options of one, or a ChatJudge. options: see ChatJudge.
        tool, argument: the judge is shown this text argument of the tool's calls; without a tool, the text of each
            turn.
    Source: after Text2Grad, Wang et al. 2025, arXiv:2505.22338, whose critiques also end in exact quotes. Text2Grad
        asks a model fine-tuned on such critiques; we ask any chat model, with our own question.
    """

    def __init__(self, judge: JudgeConfig = None, *, tool: str = "", argument: str = "code", **options: object) -> None:
        self.judge = judge if isinstance(judge, ChatJudge) else ChatJudge(judge, **options)  # type: ignore[arg-type]
        self.tool, self.argument = tool, argument

    async def spans(self, episode: Trajectory) -> list[list[Span]]:
        """Mark right and wrong pieces of each turn. Raises: JudgeError without a judge, or if it gives no quotes."""
        task = "\n".join(message.text for message in episode.task.opening())
        return await asyncio.gather(*(self._of_turn(task, turn) for turn in episode.turns))

    async def _of_turn(self, task: str, turn: Turn) -> list[Span]:
        questions = [
            self._of_text(text, call, {"TASK": task, "TEXT": text, "RESULT": result})
            for call, text, result in self._texts(turn)
            if text.strip()
        ]
        return [span for spans in await asyncio.gather(*questions) for span in spans]

    def _texts(self, turn: Turn) -> Iterator[tuple[int | None, str, str]]:
        """Yield the call's index, the text to criticise, and the tools' answers."""
        results = [result.message().text for result in turn.results]
        if not self.tool:
            yield None, turn.message.text, "\n".join(results)
            return
        for index, call in enumerate(turn.message.calls):
            text = call.arguments.get(self.argument)
            if call.name == self.tool and isinstance(text, str):
                yield index, text, results[index] if index < len(results) else ""

    async def _of_text(self, text: str, call: int | None, texts: dict[str, str]) -> list[Span]:
        quotes = await self.judge.quotes(CRITICISE, texts, tuple(VALUES), written=("TEXT", "RESULT"))
        argument = "" if call is None else self.argument
        return [
            Span(start, start + len(quote), VALUES[kind], call, argument)
            for kind in VALUES
            for quote in quotes[kind]
            if (start := only_place(text, quote)) is not None
        ]


def only_place(text: str, quote: str) -> int | None:
    """Return where a quote begins in a text; None if the quote is empty or does not occur exactly once."""
    start = text.find(quote) if quote else -1
    return start if start >= 0 and text.find(quote, start + 1) < 0 else None
