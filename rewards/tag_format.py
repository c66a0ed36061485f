"""`tag_format`: whether every message uses the required tags.

Source: format reward of DeepSeek-R1, arXiv:2501.12948, section 2.2.2.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from agentgym import Reward, Trajectory, Turn
from agentgym.reward import Components

MAX_CHARS = 200_000


class TagFormat(Reward):
    """Turn component `tags`: 1.0 if the message has each tag once, in order, not nested, with nothing outside; else 0.

    Args:
        tags: names of the tags, for example ("think", "answer").
        last: tags of the episode's last message, if they differ.
        around: whether text outside the tags is allowed, such as calls in the hermes format.
    """

    weights: Mapping[str, float] = {"tags": 0.1}
    reads_thoughts = True

    def __init__(
        self, tags: Sequence[str] = ("think", "answer"), last: Sequence[str] | None = None, around: bool = False
    ) -> None:
        if not tags or not all(re.fullmatch(r"[\w-]+", tag) for tag in (*tags, *(last or ()))):
            raise ValueError(
                f"tags = {tags!r} is not valid: give one or more names made up of letters, digits, '-' and '_'."
            )
        self.tags, self.last, self.around = tuple(tags), None if last is None else tuple(last), around

    def hindsight(self, episode: Trajectory) -> list[Components]:
        return [{"tags": float(self._fits(turn, turn is episode.turns[-1]))} for turn in episode.turns]

    def _fits(self, turn: Turn, is_last: bool) -> bool:
        tags = self.last if is_last and self.last is not None else self.tags
        text = turn.message.written
        if len(text) > MAX_CHARS:
            return False
        tags_in_text = re.findall(r"<(/?[\w-]+)>", text)
        if [name for name in tags_in_text if name.lstrip("/") in tags] != [
            part for tag in tags for part in (tag, f"/{tag}")
        ]:
            return False
        rest, inside = text, []
        for tag in tags:
            before, _, after = rest.partition(f"<{tag}>")
            body, _, rest = after.partition(f"</{tag}>")
            inside.append(body)
            if before.strip() and not self.around:
                return False
        return all(body.strip() for body in inside) and (self.around or not rest.strip())
