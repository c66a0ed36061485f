"""A few cards, each behind a link with its name: the simplest thing to find out."""

from __future__ import annotations

from typing import Any

from .app import App, Fields, link, text, whole


class Cards(App):
    """`data`: cards, pairs of a name and what the card says. Nothing can be changed."""

    title = "Cards"

    def get_home(self, query: Fields) -> str:
        names = [name for name, _ in self.state["cards"]]
        return self.page(self.title, "".join(f"<p>{link(f'/card?at={at}', name)}</p>" for at, name in enumerate(names)))

    def get_card(self, query: Fields) -> str:
        at = whole(query.get("at", ""), 0, len(self.state["cards"]) - 1)
        said = "There is no such card." if at is None else self.state["cards"][at][1]
        return self.page("Card", f"<p>{text(said)}</p>")

    def effects(self) -> dict[str, Any]:
        """None, whatever was read."""
        return {}
