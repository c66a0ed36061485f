"""Telecom: lines, bills, and a telephone whose settings only the customer can change."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from agentgym import Environment, ToolError, tool

from ..record_app import NotFound, StoreApp, listing
from ..record_store import Store, TableSchema

POLICY = """\
You serve the customers of a telephone company. Today is {today}.
- Find the customer by telephone number before anything else. Say nothing about other customers.
- Before each change, say what you will do and ask the customer to confirm.
- If mobile data does not work, find out why. Look at the line first: a line that is suspended is resumed once
  its open bill is paid; say the amount before you charge it. If no data is left, 1 to 5 gigabytes can be
  added at 4 each; say the price before. Abroad, roaming must be on for the line. Then ask the customer to
  look at the telephone: airplane mode must be off, mobile data on, and abroad roaming on. You cannot change
  the settings of a telephone; tell the customer to.
- Change only what is wrong.
- When a request is done or refused, ask whether there is anything else. Hand over to a human only if none of
  this helps."""


class TelecomApp(StoreApp):
    """Customers, lines and bills of a telephone company, and their telephones."""

    name = "telecom"
    tables = (
        TableSchema("customers", ("name", "number")),
        TableSchema("lines", ("customer_id", "plan", "status", "roaming", "data_left")),
        TableSchema("bills", ("customer_id", "month", "amount", "paid")),
        TableSchema("phones", ("customer_id", "airplane_mode", "mobile_data", "roaming")),
    )

    @tool
    def find_customer(self, number: str) -> dict[str, Any]:
        """Find a customer by telephone number."""
        for row in self.store.rows("customers", number="".join(filter(str.isdigit, number))):
            return {"id": row["id"], "name": row["name"]}
        raise NotFound("There is no such customer.")

    @tool
    def line_of(self, customer_id: int) -> dict[str, Any]:
        """The line of a customer: id, plan, status, roaming, and gigabytes of data that are left."""
        self.row("customers", customer_id)
        return listing(
            self.store.rows("lines", customer_id=customer_id), 0, "id", "plan", "status", "roaming", "data_left"
        )

    @tool
    def bills_of(self, customer_id: int) -> dict[str, Any]:
        """The bills of a customer: id, month, amount, and whether it is paid."""
        self.row("customers", customer_id)
        return listing(self.store.rows("bills", customer_id=customer_id), 0, "id", "month", "amount", "paid")

    @tool
    def charge_bill(self, bill_id: int) -> str:
        """Let the customer pay an open bill."""
        if self.row("bills", bill_id)["paid"]:
            raise ToolError(f"Bill {bill_id} is paid.")
        self.store.update("bills", bill_id, paid=True)
        return "Paid."

    @tool
    def resume_line(self, line_id: int) -> str:
        """End the suspension of a line."""
        line = self.row("lines", line_id)
        if any(not bill["paid"] for bill in self.store.rows("bills", customer_id=line["customer_id"])):
            raise ToolError("A bill is open.")
        self.store.update("lines", line_id, status="active")
        return "Resumed."

    @tool
    def set_line_roaming(self, line_id: int, on: bool) -> str:
        """Allow or forbid the use of a line abroad."""
        self.row("lines", line_id)
        self.store.update("lines", line_id, roaming=on)
        return "Set."

    @tool
    def add_data(self, line_id: int, gigabytes: Annotated[int, Field(ge=1, le=5)]) -> dict[str, Any]:
        """Add data to a line."""
        line = self.row("lines", line_id)
        self.store.update("lines", line_id, data_left=line["data_left"] + gigabytes)
        return {"cost": 4 * gigabytes}


class Phone(Environment):
    """A customer's telephone, which only the customer can use. In memory, so nothing is isolated.

    Args:
        store: the records of the episode. phone_id: the id of this telephone's row.
    """

    def __init__(self, store: Store, phone_id: int) -> None:
        self._store, self._phone_id = store, phone_id

    @tool(inline=True)
    def look(self) -> str:
        """Read the settings of the telephone."""
        row = self._store.get("phones", self._phone_id)
        assert row is not None
        names = {"airplane_mode": "airplane mode", "mobile_data": "mobile data", "roaming": "roaming"}
        return ", ".join(f"{name} {'on' if row[column] else 'off'}" for column, name in names.items())

    @tool(inline=True)
    def set_airplane_mode(self, on: bool) -> str:
        """Turn airplane mode on or off."""
        return self._set(airplane_mode=on)

    @tool(inline=True)
    def set_mobile_data(self, on: bool) -> str:
        """Turn mobile data on or off."""
        return self._set(mobile_data=on)

    @tool(inline=True)
    def set_roaming(self, on: bool) -> str:
        """Turn roaming on or off."""
        return self._set(roaming=on)

    def _set(self, **values: bool) -> str:
        self._store.update("phones", self._phone_id, **values)
        return str(self.look())
