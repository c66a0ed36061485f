"""`reward_model`: a trained sequence classifier scores the answer, in this process.

A learned score is easily exploited: limit it, gate it by a rule (see agentgym.Gate), and watch held-out success.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import Any

from agentgym import JudgeError, MissingExtraError, Reward, Trajectory, in_thread, install_command
from agentgym.reward import Components, judge_submission

from .chat_judge import HARMLESS
from .final_answer import final_answer


class RewardModel(Reward):
    """Outcome component `reward_model`: the classifier's score of question and final answer; 0.0 without an answer.

    Args:
        path: a local folder with a transformers sequence classifier and its tokenizer, or the hub name of one that is
            already downloaded. The score is a classifier's single output or, with several, the probability of the last
            one.
        squash: `sigmoid` maps a single output to 0 to 1; `none` clips it to -bound to bound.
        argument: the final tool's argument with the answer. max_tokens: longer inputs are truncated at the start.
        device: torch device name. batch: largest number of waiting texts scored together.
    """

    weights: Mapping[str, float] = {"reward_model": 1.0}

    def __init__(
        self,
        path: str | None = None,
        *,
        squash: str = "sigmoid",
        bound: float = 10.0,
        argument: str = "text",
        max_tokens: int = 2048,
        device: str = "cpu",
        batch: int = 16,
    ) -> None:
        if squash not in ("sigmoid", "none") or not bound > 0 or batch < 1 or max_tokens < 1:
            raise ValueError(
                f"squash = {squash!r}, bound = {bound!r}, batch = {batch!r}, max_tokens = {max_tokens!r} are not all "
                "valid: squash must be sigmoid or none, bound above 0, batch and max_tokens at least 1."
            )
        self.path, self.squash, self.bound, self.argument = path, squash, bound, argument
        self.max_tokens, self.device, self.batch = max_tokens, device, batch
        self._model: Any = None
        self._tokenizer: Any = None
        self._waiting: list[tuple[str, str, asyncio.Future[float]]] = []
        self._busy: asyncio.Lock | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode. Raises: JudgeError without a model, or if it returns no number."""
        answer = final_answer(episode, self.argument)
        if self.path is None:
            raise JudgeError(
                "reward_model has no model. Give it the option `path`, a folder with a sequence classifier."
            )
        if answer is None:
            return {"reward_model": 0.0}
        question = "\n".join(message.text for message in episode.task.opening())
        return {"reward_model": await self.score(question, answer)}

    async def score(self, question: str, answer: str) -> float:
        """Return an answer's score; the lowest possible one if the model cannot score this answer but can score a
        harmless one.

        Raises: JudgeError if the model cannot score anything; MissingExtraError.
        """
        worst = 0.0 if self.squash == "sigmoid" else -self.bound
        return await judge_submission(
            lambda: self._score(question, answer), lambda: self._score(question, HARMLESS), worst, errors=(NoScore,)
        )

    async def _score(self, question: str, answer: str) -> float:
        """Return the score of one pair; pairs that wait together are scored in one pass. Raises: JudgeError."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop or self._busy is None:
            self._loop, self._busy, self._waiting = loop, asyncio.Lock(), []
        future: asyncio.Future[float] = loop.create_future()
        self._waiting.append((question, answer, future))
        async with self._busy:
            if not future.done():
                chosen, self._waiting = self._waiting[: self.batch], self._waiting[self.batch :]
                await self._run(chosen)
        return await future

    async def _run(self, chosen: list[tuple[str, str, asyncio.Future[float]]]) -> None:
        try:
            scores = await in_thread(self._scores, [(question, answer) for question, answer, _ in chosen])
        except Exception as error:  # noqa: BLE001  every waiting caller must get the model's error
            if len(chosen) > 1:  # one text may have caused the failure of all
                for each in chosen:
                    await self._run([each])
                return
            for _, _, future in chosen:
                if not future.done():
                    future.set_exception(_named(error, str(self.path)))
                    future.exception()  # retrieved, even if its episode was cancelled meanwhile
            return
        for (_, _, future), score in zip(chosen, scores, strict=True):
            if not future.done():
                future.set_result(score)

    def _scores(self, pairs: list[tuple[str, str]]) -> list[float]:
        try:
            import torch
            from transformers import AutoModelForSequenceClassification, AutoTokenizer
        except ModuleNotFoundError as error:
            raise MissingExtraError(
                f"reward_model needs the package {error.name!r}, which is not installed. "
                f"Install it: {install_command('train')}."
            ) from error
        if self._model is None:
            self._tokenizer = AutoTokenizer.from_pretrained(self.path, truncation_side="left", padding_side="right")
            model = AutoModelForSequenceClassification.from_pretrained(self.path, dtype=torch.float32)
            if self._tokenizer.pad_token_id is None:
                raise JudgeError(
                    f"The tokenizer in {self.path} has no padding token. Set one, and save the tokenizer again."
                )
            model.config.pad_token_id = self._tokenizer.pad_token_id
            self._model = model.to(self.device).eval()
        texts = [self._text(question, answer) for question, answer in pairs]
        rows = self._tokenizer(
            texts, return_tensors="pt", padding=True, truncation=True, max_length=self.max_tokens
        ).to(self.device)
        with torch.no_grad():
            logits = self._model(**rows).logits.float().cpu()
        if logits.shape[-1] > 1:
            scores = logits.softmax(-1)[:, -1].tolist()
        else:
            scores = [self._squashed(value) for value in logits[:, 0].tolist()]
        if not all(map(math.isfinite, scores)):
            raise NoScore(f"The model in {self.path} gave a score that is not a finite number.")
        return [float(value) for value in scores]

    def _text(self, question: str, answer: str) -> str:
        if getattr(self._tokenizer, "chat_template", None):
            messages = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
            return str(self._tokenizer.apply_chat_template(messages, tokenize=False))
        return f"{question}\n{answer}"

    def _squashed(self, value: float) -> float:
        if self.squash == "sigmoid":
            return 1.0 / (1.0 + math.exp(-max(min(value, 50.0), -50.0)))
        return max(min(value, self.bound), -self.bound)


class NoScore(Exception):
    """The model gave no score to a text."""


def _named(error: Exception, path: str) -> Exception:
    if isinstance(error, (JudgeError, MissingExtraError, NoScore)):
        return error
    no_score = NoScore(f"The reward model in {path!r} cannot judge: {error}")
    no_score.__cause__ = error
    return no_score
