"""`behaviour_action`: compares predicted actions with recorded ones and rewards the right type, element and value.

Source: Shop-R1, Zhang et al. 2025, arXiv:2507.17842: the hierarchy, ROUGE-L with a threshold for texts, and higher
rewards for long texts. These are hard to predict; without the higher reward, always predicting the easy `terminate`
would be the best policy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from agentgym import Call, JudgeError, Result, Reward, Trajectory, Turn
from agentgym.reward import SUCCESS, Components
from agentgym.trajectory import Span

from .token_overlap import normalised

TOOL = "act"
LONG_WORDS = 3
"""An element's label of at least this many words counts as a long text; a typed text always does."""
Action = tuple[str, str, str]
"""The type, the element and the value, normalised; an action without an element has no value either."""


class BehaviourAction(Reward):
    """Compares the n-th call of `act` that ran with the n-th of `truth["actions"]`: `terminate` or `type target:
    value`.

    Turn components, each divided by the session's number of actions, so that each sums to at most 1 over an episode
    (`value` to at most `difficulty`): `action_type` for the right type; `attribute` for the right element, if the type
    is right; `value`, if both are right, for the value: its ROUGE-L similarity if that is at least `threshold`, times
    `difficulty` if the value is long. An action without an element, such as `terminate`, is rewarded for its type only.
    Outcome components: `success`, 1.0 if every action is completely right, and `exact_actions`, the share of completely
    right actions (weight 0). Case, punctuation and articles are ignored.

    The rationale of each such call is named as a span, for the wrapper `self_certainty`.

    Args:
        difficulty: factor on long values. Shop-R1 uses 1000; its weights of type and element, 0.3 and 0.2, are also
            ours.
        threshold: minimum similarity, 0 to 1; below it a value is wrong. 1 requires the same words in the same order.
    Raises: ValueError for a difficulty or threshold out of range.
    """

    weights: Mapping[str, float] = {"action_type": 0.3, "attribute": 0.2, "value": 0.5, "exact_actions": 0.0}

    def __init__(self, difficulty: float = 2.0, threshold: float = 0.75) -> None:
        if not (math.isfinite(difficulty) and difficulty >= 0 and 0 <= threshold <= 1):
            raise ValueError(
                f"difficulty = {difficulty} and threshold = {threshold} are not valid: difficulty must be a finite "
                "number of at least 0, and threshold from 0 to 1."
            )
        self.difficulty, self.threshold = difficulty, threshold

    def turn(self, turn: Turn, episode: Trajectory) -> Components:
        """Judge a turn. Raises: JudgeError if the task has no actions in its truth."""
        actions = _true_actions(episode)
        earlier = sum(len(_predictions(other)) for other in episode.turns if other.index < turn.index)
        paid = [self._parts(own, true) for own, true in zip(_predictions(turn), actions[earlier:], strict=False)]
        names = ("action_type", "attribute", "value")
        return {name: math.fsum(parts[n] for parts in paid) / len(actions) for n, name in enumerate(names)}

    def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode. Raises: JudgeError if the task has no actions in its truth."""
        actions = _true_actions(episode)
        predicted = [own for turn in episode.turns for own in _predictions(turn)]
        exact = sum(own == true for own, true in zip(predicted, actions, strict=False)) / len(actions)
        return {SUCCESS: float(exact == 1.0), "exact_actions": exact}

    def spans(self, episode: Trajectory) -> list[list[Span]]:
        """Return the rationale of each call of `act` that ran, with the value 1."""
        return [
            [
                Span(0, len(text), 1.0, index, "rationale")
                for index, (call, result) in enumerate(zip(turn.message.calls, turn.results, strict=False))
                if _ran(call, result) and isinstance(text := call.arguments.get("rationale"), str) and text
            ]
            for turn in episode.turns
        ]

    def _parts(self, own: Action, true: Action) -> tuple[float, float, float]:
        """Return the rewards for the type, the element and the value."""
        if own[0] != true[0]:
            return 0.0, 0.0, 0.0
        if not true[1] or own[1] != true[1]:
            return 1.0, 0.0, 0.0
        likeness = rouge_l(own[2], true[2])
        is_long = true[0] == "type and submit" or len(true[2].split()) >= LONG_WORDS
        factor = self.difficulty if is_long else 1.0
        return 1.0, 1.0, factor * likeness if likeness >= self.threshold else 0.0


def rouge_l(text: str, gold: str) -> float:
    """Return F1 of the longest common subsequence of words, 0 to 1; 0 if either has no words.

    Source: Lin 2004, "ROUGE: A Package for Automatic Evaluation of Summaries", section 3.1, with beta 1.
    """
    words, gold_words = text.split(), gold.split()
    if not words or not gold_words:
        return 0.0
    lengths = [0] * (len(gold_words) + 1)  # lengths of the common subsequence with each prefix of the gold text
    for word in words:
        diagonal = 0
        for n, gold_word in enumerate(gold_words, start=1):
            longest = diagonal + 1 if word == gold_word else max(lengths[n], lengths[n - 1])
            diagonal, lengths[n] = lengths[n], longest
    return 2.0 * lengths[-1] / (len(words) + len(gold_words))


def _predictions(turn: Turn) -> list[Action]:
    """Return the actions that a turn's executed calls predict."""
    return [
        _action(*(call.arguments.get(name, "") for name in ("type", "target", "value")))
        for call, result in zip(turn.calls, turn.results, strict=False)
        if _ran(call, result)
    ]


def _ran(call: Call, result: Result) -> bool:
    return call.name == TOOL and result.ok


def _true_actions(episode: Trajectory) -> Sequence[Action]:
    truth = episode.task.truth
    actions = truth.get("actions") if isinstance(truth, Mapping) else None
    if not isinstance(actions, list | tuple) or not actions or not all(isinstance(each, str) for each in actions):
        raise JudgeError(
            f"{episode.task.id} has no truth['actions'], which behaviour_action needs. Give it a list of texts."
        )
    return [_read(action) for action in actions]


def _read(action: str) -> Action:
    """Parse a logged action: `terminate`, or `type target: value`."""
    kind, _, rest = action.partition(" ")
    target, _, value = rest.partition(": ")
    return _action(kind, target, value)


def _action(kind: object, target: object, value: object) -> Action:
    element = normalised(str(target))
    return normalised(str(kind).replace("_", " ")), element, normalised(str(value)) if element else ""
