"""A form of many steps, one field on each page, that says what to fill in."""

from __future__ import annotations

from typing import Any

from .app import App, Fields, parse_whole_number, text


class Wizard(App):
    """`data`: steps, each with `label`, `kind` (text, choice or radio), `options` and `right`, the right option.

    A page shows its label, the right value and all options. Whichever option is sent, the next page follows; if
    a value that is not an option is sent, the same page follows. The last page is empty, and the task is over.
    """

    title = "Form"

    def __init__(self, data: dict[str, Any]) -> None:
        super().__init__({"values": [], **data})

    def get_home(self, query: Fields) -> str:
        number = len(self.state["values"])
        if number == len(self.state["steps"]):
            return _page("")
        step = self.state["steps"][number]
        return _page(
            f"<p>{text(step['label'])} {text(step['right'])}:</p><form method=post action=/next>"
            f"<input type=hidden name=step value={number}>{_field(step)} <input type=submit value=Next></form>"
        )

    def post_next(self, form: Fields) -> str:
        """Record the value of the step. A form that is sent twice counts once."""
        number, value = len(self.state["values"]), form.get("value", "").strip()
        is_current = parse_whole_number(form.get("step"), number, number) is not None
        if is_current and number < len(self.state["steps"]) and value in self.state["steps"][number]["options"]:
            self.state["values"].append(value)
        return self.get_home({})

    def effects(self) -> dict[str, Any]:
        """Return the value of every step taken, by the step's number, from 1."""
        return {str(number): value for number, value in enumerate(self.state["values"], 1)}

    def steps(self) -> tuple[int, int, int]:
        """Return the number of steps taken, of those taken correctly, and of all steps."""
        steps, values = self.state["steps"], self.state["values"]
        right = sum(step["right"] == value for step, value in zip(steps, values))  # noqa: B905  Python 3.9
        return len(values), right, len(steps)


def _page(body: str) -> str:
    return (
        f"<!DOCTYPE html><html lang=en><head><meta charset=utf-8><title>Form</title></head><body>{body}</body></html>"
    )


def _field(step: dict[str, Any]) -> str:
    """Return a field with its options as text, so that the page's text shows them for every kind of field."""
    options = [text(option) for option in step["options"]]
    if step["kind"] == "radio":
        return " ".join(f'<label><input type=radio name=value value="{option}"> {option}</label>' for option in options)
    if step["kind"] == "choice":
        return f"<select name=value><option>{''.join(f'<option>{option}' for option in options)}</select>"
    return f"{' '.join(options)} <input name=value aria-label=Value size=12>"
