"""One page with a few fields and buttons: the simplest task of acting."""

from __future__ import annotations

from typing import Any

from .app import App, Fields, choice, entry, text


class Form(App):
    """`data`: title, fields (each with kind, name, label and options) and buttons."""

    title = "Form"

    def __init__(self, data: dict[str, Any]) -> None:
        super().__init__({"sent": [], **data})

    def get_home(self, query: Fields) -> str:
        body = "<form method=post action=/send>"
        for field in self.state["fields"]:
            name, label = field["name"], field["label"]
            if field["kind"] == "choice":
                body += choice(name, label, ["-", *field["options"]])
            elif field["kind"] == "check":
                body += f"<label><input type=checkbox name={text(name)} value=yes> {text(label)}</label>"
            else:
                body += entry(name, label)
            body += "<br>"
        for words in self.state["buttons"]:
            body += f'<button name=button value="{text(words)}">{text(words)}</button> '
        return self.page(self.state["title"], body + "</form>")

    def post_send(self, form: Fields) -> str:
        if len(self.state["sent"]) < 20:
            names = [field["name"] for field in self.state["fields"]]
            held = {name: form.get(name, "")[:200].strip() for name in names if form.get(name, "") not in ("", "-")}
            self.state["sent"].append({"button": form.get("button", "")[:200], **held})
        return "/done"

    def get_done(self, query: Fields) -> str:
        return self.page("Done", "<p>Thank you.</p>")

    def effects(self) -> dict[str, Any]:
        """Return the forms that were sent, in order."""
        return {"sent": self.state["sent"]} if self.state["sent"] else {}
