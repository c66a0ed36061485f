"""A list of cards, each behind a link with its name: the simplest task of reading."""

from __future__ import annotations

from typing import Any

from .app import App, Fields, link, parse_whole_number, text


class Cards(App):
    """`data`: cards, each a pair of a name and the card's text. Nothing can be changed."""

    title = "Cards"

    def get_home(self, query: Fields) -> str:
        names = [name for name, _ in self.state["cards"]]
        return self.page(
            self.title, "".join(f"<p>{link(f'/card?at={index}', name)}</p>" for index, name in enumerate(names))
        )

    def get_card(self, query: Fields) -> str:
        index = parse_whole_number(query.get("at", ""), 0, len(self.state["cards"]) - 1)
        card_text = "There is no such card." if index is None else self.state["cards"][index][1]
        return self.page("Card", f"<p>{text(card_text)}</p>")

    def effects(self) -> dict[str, Any]:
        """Return no effects: nothing can be changed."""
        return {}
