"""Retail: orders of clothes and household goods."""

from __future__ import annotations

from typing import Any, Literal

from agentgym import ToolError, tool

from ..record_app import NotFound, StoreApp, listing
from ..record_store import TableSchema

POLICY = """\
You serve the customers of a shop. Today is {today}.
- Find the customer by mail address, or by name and zip code, before anything else. Say nothing about other
  customers.
- Before each change, say what you will do and ask the customer to confirm.
- Only a pending order can be cancelled, or sent to another address.
- An article can be returned or exchanged if its order was delivered, within 30 days of the delivery. If it is
  too late, refuse and say on which date the order was delivered.
- An article is exchanged for another variant of the same product that is in stock. Say the price of the new
  one before.
- When a request is done or refused, ask whether there is anything else. Hand over to a human only if none of
  this helps."""


class RetailApp(StoreApp):
    """Customers, orders and articles of a shop."""

    name = "retail"
    tables = (
        TableSchema("customers", ("name", "email", "zip")),
        TableSchema("variants", ("product", "colour", "price", "stock")),
        TableSchema("orders", ("customer_id", "date", "status", "delivered_on", "address")),
        TableSchema("articles", ("order_id", "variant_id", "price", "status"), (("order_id", "orders"),)),
    )

    @tool
    def find_customer(self, email: str = "", name: str = "", zip_code: str = "") -> dict[str, Any]:
        """Find a customer by mail address, or by name and zip code."""
        for row in self.store.rows("customers"):
            by_name = bool(name) and (row["name"].casefold(), row["zip"]) == (name.casefold(), zip_code)
            if (email and row["email"] == email.casefold()) or by_name:
                return {"id": row["id"], "name": row["name"]}
        raise NotFound("There is no such customer.")

    @tool
    def orders_of(self, customer_id: int) -> dict[str, Any]:
        """The orders of a customer: id, date, status, delivered_on and address."""
        self.row("customers", customer_id)
        rows = self.store.rows("orders", customer_id=customer_id)
        return listing(rows, 0, "id", "date", "status", "delivered_on", "address")

    @tool
    def articles_of(self, order_id: int) -> list[dict[str, Any]]:
        """The articles of an order: id, product, colour, price and status."""
        self.row("orders", order_id)
        articles = []
        for row in self.store.rows("articles", order_id=order_id):
            variant = self.row("variants", row["variant_id"])
            described = {"product": variant["product"], "colour": variant["colour"]}
            articles.append({"id": row["id"], **described, "price": row["price"], "status": row["status"]})
        return articles

    @tool
    def variants_of(self, product: str) -> dict[str, Any]:
        """The variants of a product: id, colour, price and stock."""
        return listing(self.store.rows("variants", product=product), 0, "id", "colour", "price", "stock")

    @tool
    def cancel_order(self, order_id: int, reason: Literal["no longer needed", "ordered by mistake"]) -> str:
        """Cancel a pending order."""
        self._pending(order_id)
        self.store.update("orders", order_id, status=f"cancelled: {reason}")
        return "Cancelled."

    @tool
    def change_address(self, order_id: int, address: str) -> str:
        """Send a pending order to another address."""
        self._pending(order_id)
        self.store.update("orders", order_id, address=address)
        return "Changed."

    @tool
    def return_article(self, article_id: int) -> str:
        """Take an article back and pay its price back."""
        self._delivered(article_id)
        self.store.update("articles", article_id, status="returned")
        return "The return is registered."

    @tool
    def exchange_article(self, article_id: int, variant_id: int) -> dict[str, Any]:
        """Exchange an article for another variant."""
        article, variant = self._delivered(article_id), self.row("variants", variant_id)
        if variant["product"] != self.row("variants", article["variant_id"])["product"] or not variant["stock"]:
            raise ToolError("Exchange it for a variant of the same product that is in stock.")
        self.store.update("variants", variant_id, stock=variant["stock"] - 1)
        self.store.update("articles", article_id, variant_id=variant_id, price=variant["price"], status="exchanged")
        return {"difference": variant["price"] - article["price"]}

    def _pending(self, order_id: int) -> None:
        if (status := self.row("orders", order_id)["status"]) != "pending":
            raise ToolError(f"Order {order_id} is {status}, not pending.")

    def _delivered(self, article_id: int) -> Any:
        article = self.row("articles", article_id)
        if self.row("orders", article["order_id"])["status"] != "delivered" or article["status"] != "sold":
            raise ToolError(f"Article {article_id} has not been delivered, or has already been returned or exchanged.")
        return article
