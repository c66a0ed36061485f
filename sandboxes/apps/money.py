"""The apps for money: the bank, and the shop, which is paid through the bank."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from agentgym import ToolError, tool

from ..record_app import StoreApp, holds, listing
from ..record_store import Store, TableSchema

Positive = Annotated[int, Field(ge=1, le=1_000_000)]


class BankApp(StoreApp):
    """The account: payments, standing orders, and the balance. Amounts are whole crowns."""

    name = "bank"
    tables = (
        TableSchema("payments", ("date", "party", "amount", "text")),
        TableSchema("standing_orders", ("party", "amount", "day")),
    )

    @tool
    def balance(self) -> dict[str, Any]:
        """What is on the account."""
        return {"balance": balance_of(self.store)}

    @tool
    def payments(self, party: str = "", since: str = "", until: str = "", page: int = 0) -> dict[str, Any]:
        """List payments, newest first. Each result has id, date, party, amount (below 0: it was paid out) and text.

        Args:
            party: who paid or was paid; the name holds this text.
            since: first date, as 2025-03-01.
            until: last date.
        """
        rows = [
            row
            for row in self.store.rows("payments")
            if since <= row["date"] and (not until or row["date"] <= until) and holds(row, party, "party")
        ]
        rows.sort(key=lambda row: (row["date"], row["id"]), reverse=True)
        return listing(rows, page, "id", "date", "party", "amount", "text")

    @tool
    def pay(self, party: str, amount: Positive, text: str = "") -> dict[str, Any]:
        """Pay somebody.

        Args:
            party: the full name of who is paid.
        """
        return {"id": pay_out(self.store, self.today, party, amount, text)}

    @tool
    def standing_orders(self) -> dict[str, Any]:
        """List what is paid every month. Each result has id, party, amount and day of the month."""
        return listing(self.store.rows("standing_orders"), 0, "id", "party", "amount", "day")

    @tool
    def add_standing_order(
        self, party: str, amount: Positive, day: Annotated[int, Field(ge=1, le=28)]
    ) -> dict[str, Any]:
        """Pay somebody the same amount on the same day of every month."""
        return {"id": self.store.insert("standing_orders", party=party, amount=amount, day=day)["id"]}

    @tool
    def stop_standing_order(self, order_id: int) -> str:
        """End a standing order."""
        self.row("standing_orders", order_id)
        self.store.delete("standing_orders", order_id)
        return "Ended."


class ShopApp(StoreApp):
    """A shop: products and orders. Orders are paid from the bank account."""

    name = "shop"
    tables = (
        TableSchema("products", ("name", "price", "stock")),
        TableSchema(
            "orders", ("date", "product_id", "quantity", "total", "status"), references=(("product_id", "products"),)
        ),
    )

    @tool
    def search(self, text: str = "", page: int = 0) -> dict[str, Any]:
        """Find products whose name holds a text. Each result has id, name, price and stock."""
        rows = (row for row in self.store.rows("products") if holds(row, text, "name"))
        return listing(rows, page, "id", "name", "price", "stock")

    @tool
    def orders(self, product_id: int = 0, page: int = 0) -> dict[str, Any]:
        """List the orders, newest first. Each result has id, date, product_id, quantity, total and status.

        Args:
            product_id: only orders of this product; 0 for all.
        """
        of_product = {"product_id": product_id} if product_id else {}
        rows = sorted(self.store.rows("orders", **of_product), key=lambda row: (row["date"], row["id"]), reverse=True)
        return listing(rows, page, "id", "date", "product_id", "quantity", "total", "status")

    @tool
    def buy(self, product_id: int, quantity: Annotated[int, Field(ge=1, le=100)] = 1) -> dict[str, Any]:
        """Order a product, and pay for it at once."""
        product = self.row("products", product_id)
        if product["stock"] < quantity:
            raise ToolError(f"Only {product['stock']} of {product['name']} are in stock.")
        total = product["price"] * quantity
        pay_out(self.store, self.today, "Corner Shop", total, f"{quantity} x {product['name']}")
        self.store.update("products", product_id, stock=product["stock"] - quantity)
        row = self.store.insert(
            "orders", date=self.today, product_id=product_id, quantity=quantity, total=total, status="ordered"
        )
        return {"id": row["id"], "total": total}

    @tool
    def cancel(self, order_id: int) -> str:
        """Cancel an order that is not delivered yet; what was paid comes back."""
        order = self.row("orders", order_id)
        if order["status"] != "ordered":
            raise ToolError(f"Order {order_id} is {order['status']}: only orders with status ordered can be cancelled.")
        self.store.update("orders", order_id, status="cancelled")
        product = self.row("products", order["product_id"])
        self.store.update("products", product["id"], stock=product["stock"] + order["quantity"])
        self.store.insert(
            "payments", date=self.today, party="Corner Shop", amount=order["total"], text=f"order {order_id} cancelled"
        )
        return "Cancelled."


def balance_of(store: Store) -> int:
    """Return the account's balance in crowns: the sum of all payments."""
    return sum(row["amount"] for row in store.rows("payments"))


def pay_out(store: Store, date: str, party: str, amount: int, text: str) -> int:
    """Pay from the account. Returns: the payment's id. Raises: ToolError if the balance is too low."""
    if amount > (balance := balance_of(store)):
        raise ToolError(f"The account holds {balance}, which is less than {amount}.")
    payment_id: int = store.insert("payments", date=date, party=party, amount=-amount, text=text)["id"]
    return payment_id
