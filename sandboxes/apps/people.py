"""The apps for people and text: contacts, mail, and notes."""

from __future__ import annotations

from typing import Any, Literal

from agentgym import ToolError, tool

from ..record_app import StoreApp, holds, listing
from ..record_store import TableSchema

Folder = Literal["inbox", "sent", "archive"]


class ContactsApp(StoreApp):
    """People, with their addresses."""

    name = "contacts"
    tables = (TableSchema("contacts", ("name", "email", "phone", "city", "birthday")),)

    @tool
    def search(self, name: str, page: int = 0) -> dict[str, Any]:
        """Find people whose name holds a text. Each result has id, name, email, phone, city and birthday."""
        rows = (row for row in self.store.rows("contacts") if holds(row, name, "name"))
        return listing(rows, page, "id", "name", "email", "phone", "city", "birthday")

    @tool
    def add(self, name: str, email: str, phone: str = "", city: str = "", birthday: str = "") -> dict[str, Any]:
        """Add a person."""
        row = self.store.insert("contacts", name=name, email=email, phone=phone, city=city, birthday=birthday)
        return {"id": row["id"]}

    @tool
    def update(self, contact_id: int, field: Literal["email", "phone", "city", "birthday"], value: str) -> str:
        """Change one thing about a person."""
        self.row("contacts", contact_id)
        self.store.update("contacts", contact_id, **{field: value})
        return "Updated."

    @tool
    def delete(self, contact_id: int) -> str:
        """Remove a person."""
        self.row("contacts", contact_id)
        self.store.delete("contacts", contact_id)
        return "Deleted."


class MailApp(StoreApp):
    """Electronic mail."""

    name = "mail"
    tables = (
        TableSchema(
            "mails",
            ("folder", "date", "sender", "recipient", "subject", "body", "unread"),
            incidental=frozenset({"unread"}),
        ),
    )

    @tool
    def search(self, text: str = "", folder: Folder = "inbox", page: int = 0) -> dict[str, Any]:
        """Find mails of a folder, newest first. Each result has id, date, sender, recipient and subject.

        Args:
            text: the sender, the recipient, the subject or the body holds it.
        """
        rows = self.store.rows("mails", folder=folder)
        matches = [row for row in rows if holds(row, text, "subject", "sender", "recipient", "body")]
        matches.sort(key=lambda row: (row["date"], row["id"]), reverse=True)
        return listing(matches, page, "id", "date", "sender", "recipient", "subject")

    @tool
    def read(self, mail_id: int) -> dict[str, Any]:
        """Read a mail; it is no longer unread then. Has all that a search shows, and the body."""
        row = self.row("mails", mail_id)
        if row["unread"]:
            row = self.store.update("mails", mail_id, unread=False)
        return {column: row[column] for column in ("id", "date", "sender", "recipient", "subject", "body")}

    @tool
    def send(self, to: str, subject: str, body: str) -> dict[str, Any]:
        """Send a mail.

        Args:
            to: an address such as ann@example.org.
        """
        if "@" not in to:
            raise ToolError(f"{to[:60]!r} is no mail address: it needs an @. Look it up in contacts.")
        self.store.record_effect("mail sent", recipient=to, subject=subject, body=body)
        row = self.store.insert(
            "mails", folder="sent", date=self.now, sender="me", recipient=to, subject=subject, body=body, unread=False
        )
        return {"id": row["id"]}

    @tool
    def move(self, mail_id: int, folder: Folder) -> str:
        """Move a mail to a folder."""
        self.row("mails", mail_id)
        self.store.update("mails", mail_id, folder=folder)
        return "Moved."

    @tool
    def delete(self, mail_id: int) -> str:
        """Delete a mail."""
        self.row("mails", mail_id)
        self.store.delete("mails", mail_id)
        return "Deleted."


class NotesApp(StoreApp):
    """Short texts with titles."""

    name = "notes"
    tables = (TableSchema("notes", ("title", "body", "date")),)

    @tool
    def search(self, text: str = "", page: int = 0) -> dict[str, Any]:
        """Find notes whose title or body holds a text. Each result has id, title and date."""
        rows = (row for row in self.store.rows("notes") if holds(row, text, "title", "body"))
        return listing(rows, page, "id", "title", "date")

    @tool
    def read(self, note_id: int) -> dict[str, Any]:
        """Read a note: id, title, date and body."""
        return dict(self.row("notes", note_id))

    @tool
    def add(self, title: str, body: str) -> dict[str, Any]:
        """Write a new note."""
        return {"id": self.store.insert("notes", title=title, body=body, date=self.today)["id"]}

    @tool
    def append(self, note_id: int, line: str) -> str:
        """Add a line at the end of a note."""
        row = self.row("notes", note_id)
        self.store.update("notes", note_id, body=f"{row['body']}\n{line}" if row["body"] else line)
        return "Added."

    @tool
    def delete(self, note_id: int) -> str:
        """Delete a note."""
        self.row("notes", note_id)
        self.store.delete("notes", note_id)
        return "Deleted."
