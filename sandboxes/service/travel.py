"""Travel: bookings of flights."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from agentgym import ToolError, tool

from ..record_app import NotFound, StoreApp, listing
from ..record_store import TableSchema

BAG_PRICE = 30
POLICY = """\
You serve the customers of an airline. Today is {today}.
- Find the customer by mail address before anything else. Say nothing about other customers.
- Before each change, say what you will do and ask the customer to confirm.
- A booking of the fare flex can be changed to another flight of the same route with free seats, or cancelled.
  If the customer names no flight, take the cheapest of the day that was asked for. Say the price of the new
  flight before.
- A booking of the fare basic can be neither changed nor cancelled. Refuse, and say the price that was paid.
- Each bag more costs 30. Say what the bags cost together before you add them. No booking has more than 4
  bags.
- When a request is done or refused, ask whether there is anything else. Hand over to a human only if none of
  this helps."""


class TravelApp(StoreApp):
    """Customers, flights and bookings of an airline."""

    name = "travel"
    tables = (
        TableSchema("customers", ("name", "email")),
        TableSchema("flights", ("origin", "target", "date", "time", "price", "seats")),
        TableSchema("bookings", ("customer_id", "flight_id", "fare", "paid", "bags", "status")),
    )

    @tool
    def find_customer(self, email: str) -> dict[str, Any]:
        """Find a customer by mail address."""
        for row in self.store.rows("customers", email=email.casefold()):
            return {"id": row["id"], "name": row["name"]}
        raise NotFound("There is no such customer.")

    @tool
    def bookings_of(self, customer_id: int) -> list[dict[str, Any]]:
        """The bookings of a customer: id, fare, paid, bags, status, origin, target, date and time."""
        self.row("customers", customer_id)
        bookings = []
        for row in self.store.rows("bookings", customer_id=customer_id):
            booking = {column: row[column] for column in ("id", "fare", "paid", "bags", "status")}
            flight = self.row("flights", row["flight_id"])
            bookings.append({**booking, **{column: flight[column] for column in ("origin", "target", "date", "time")}})
        return bookings

    @tool
    def search_flights(self, origin: str, target: str, date: str) -> dict[str, Any]:
        """The flights of a route on a day: id, time, price and free seats."""
        rows = self.store.rows("flights", origin=origin, target=target, date=date)
        return listing(rows, 0, "id", "time", "price", "seats")

    @tool
    def change_flight(self, booking_id: int, flight_id: int) -> dict[str, Any]:
        """Change a booking to another flight of the same route."""
        booking, flight = self._active(booking_id), self.row("flights", flight_id)
        before = self.row("flights", booking["flight_id"])
        if (before["origin"], before["target"]) != (flight["origin"], flight["target"]) or not flight["seats"]:
            raise ToolError("Choose a flight of the same route with free seats.")
        self.store.update("flights", before["id"], seats=before["seats"] + 1)
        self.store.update("flights", flight_id, seats=flight["seats"] - 1)
        self.store.update("bookings", booking_id, flight_id=flight_id, paid=flight["price"])
        difference = flight["price"] - booking["paid"]
        self.store.record_effect("charged", booking_id=booking_id, difference=difference)
        return {"difference": difference}

    @tool
    def cancel_booking(self, booking_id: int) -> str:
        """Cancel a booking and pay it back."""
        flight = self.row("flights", self._active(booking_id)["flight_id"])
        self.store.update("flights", flight["id"], seats=flight["seats"] + 1)
        self.store.update("bookings", booking_id, status="cancelled")
        return "Cancelled."

    @tool
    def add_bags(self, booking_id: int, count: Annotated[int, Field(ge=1, le=4)]) -> dict[str, Any]:
        """Add bags to a booking."""
        booking = self._active(booking_id)
        if booking["bags"] + count > 4:
            raise ToolError(f"Booking {booking_id} has {booking['bags']} bags, and can have 4.")
        self.store.update("bookings", booking_id, bags=booking["bags"] + count)
        return {"cost": BAG_PRICE * count}

    def _active(self, booking_id: int) -> Any:
        booking = self.row("bookings", booking_id)
        if booking["status"] != "active":
            raise ToolError(f"Booking {booking_id} is {booking['status']}.")
        return booking
