"""A shop: search and sort products, a wish list, a cart with a coupon, checkout, orders that can be cancelled."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from .app import App, Fields, button, choice, entry, link, parse_whole_number, table, text

_PER_PAGE, _MAX_QUANTITY = 8, 20
SHIPPING = {"standard": "Standard", "express": "Express", "pickup": "Pick up at the store"}
_SORTS = {
    "name": ("Name", lambda product: (product["name"], product["id"])),
    "price": ("Price, low to high", lambda product: (product["price"], product["name"])),
    "price_down": ("Price, high to low", lambda product: (-product["price"], product["name"])),
    "rating": ("Rating", lambda product: (-product["rating"], product["name"])),
}


def money(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02d}"


class Shop(App):
    """`data`: products, addresses, orders and coupons."""

    title = "Corner Shop"
    links = (("/", "Products"), ("/wishes", "Wish list"), ("/cart", "Cart"), ("/orders", "Orders"))

    def __init__(self, data: dict[str, Any]) -> None:
        super().__init__({"cart": {}, "wishes": [], "coupon": "", "reviews": [], **data})
        self._products = {product["id"]: product for product in self.start["products"]}

    def get_home(self, query: Fields) -> str:
        """Search, filter and sort."""
        words, category = query.get("q", "").strip().lower(), query.get("category", "")
        sort = requested if (requested := query.get("sort", "")) in _SORTS else "name"
        products = [
            product
            for product in self._products.values()
            if all(word in f"{product['name']} {product['category']}".lower() for word in words.split())
            and category in ("", product["category"])
        ]
        products.sort(key=_SORTS[sort][1])
        page = parse_whole_number(query.get("page", "1"), 1, 99) or 1
        on_page = products[(page - 1) * _PER_PAGE : page * _PER_PAGE]
        categories = sorted({product["category"] for product in self._products.values()})
        body = (
            "<form method=get action=/>"
            + entry("q", "Search", query.get("q", ""))
            + choice("category", "Category", [("", "All"), *categories], category)
            + choice("sort", "Sort by", [(key, words) for key, (words, _) in _SORTS.items()], sort)
            + "<button>Show</button></form>"
            + table(
                ("Product", "Category", "Price", "Rating"),
                [
                    (
                        link(f"/product?id={p['id']}", p["name"]),
                        text(p["category"]),
                        money(p["price"]),
                        f"{p['rating']:.1f}",
                    )
                    for p in on_page
                ],
            )
        )
        filters = {key: query[key] for key in ("q", "category", "sort") if query.get(key)}
        if page > 1:
            body += link("/?" + urlencode({**filters, "page": page - 1}), "Previous page") + " "
        if len(products) > page * _PER_PAGE:
            body += link("/?" + urlencode({**filters, "page": page + 1}), "Next page")
        return self.page("Products", f"<p>{len(products)} products</p>{body}")

    def get_product(self, query: Fields, note: str = "") -> str:
        product = self._products.get(query.get("id"))
        if product is None:
            return self.page("Not found", "<p>There is no such product.</p>")
        wished = product["id"] in self.state["wishes"]
        rows = [
            ("Category", text(product["category"])),
            ("Colour", text(product["colour"])),
            ("Price", money(product["price"])),
            ("Rating", f"{product['rating']:.1f} of 5"),
            ("In stock", str(product["stock"])),
            ("Article number", text(product["id"])),
        ]
        body = table(("", ""), rows)
        body += (
            f'<form method=post action=/add><input type=hidden name=id value="{text(product["id"])}">'
            f"{entry('quantity', 'Quantity', 1, size=4)}<button>Add to cart</button></form>"
            + button("/wish", "Remove from wish list" if wished else "Add to wish list", id=product["id"])
        )
        return self.page(product["name"], body, note)

    def post_add(self, form: Fields) -> str:
        product = self._products.get(form.get("id"))
        if product is None:
            return "/"
        number = parse_whole_number(form.get("quantity", ""), 1, _MAX_QUANTITY)
        held = self.state["cart"].get(product["id"], 0)
        if number is None:
            return self.get_product(form, f"The quantity is a number from 1 to {_MAX_QUANTITY}.")
        if held + number > product["stock"]:
            return self.get_product(form, f"Only {product['stock']} are in stock.")
        self.state["cart"][product["id"]] = held + number
        return "/cart"

    def post_wish(self, form: Fields) -> str:
        wishes = self.state["wishes"]
        if form.get("id") in wishes:
            wishes.remove(form["id"])
        elif form.get("id") in self._products:
            wishes.append(form["id"])
        return "/wishes"

    def get_wishes(self, query: Fields) -> str:
        rows = [
            (link(f"/product?id={key}", self._products[key]["name"]), button("/wish", "Remove", id=key))
            for key in self.state["wishes"]
        ]
        return self.page("Wish list", table(("Product", ""), rows) if rows else "<p>The wish list is empty.</p>")

    def get_cart(self, query: Fields, note: str = "") -> str:
        cart = self.state["cart"]
        if not cart:
            return self.page("Cart", "<p>The cart is empty.</p>", note)
        rows = []
        for key, number in cart.items():
            product = self._products[key]
            change = (
                f'<form method=post action=/change><input type=hidden name=id value="{text(key)}">'
                f'<input name=quantity size=3 value={number} aria-label="Quantity of {text(product["name"])}">'
                f'<button aria-label="Update {text(product["name"])}">Update</button></form>'
            )
            rows.append((link(f"/product?id={key}", product["name"]), change, money(number * product["price"])))
        body = table(("Product", "Quantity", "Price"), rows) + f"<p>Total: {money(self._total())}</p>"
        body += f"<form method=post action=/coupon>{entry('code', 'Coupon', self.state['coupon'], size=10)}"
        body += "<button>Apply coupon</button></form>" + link("/checkout", "Go to checkout")
        return self.page("Cart", body, note)

    def post_change(self, form: Fields) -> str:
        number = parse_whole_number(form.get("quantity", ""), 0, _MAX_QUANTITY)
        product = self._products.get(form.get("id"))
        if product is None or form["id"] not in self.state["cart"]:
            return "/cart"
        if number is None or number > product["stock"]:
            return self.get_cart({}, f"The quantity is a number from 0 to {min(_MAX_QUANTITY, product['stock'])}.")
        self.state["cart"][form["id"]] = number
        if not number:
            del self.state["cart"][form["id"]]
        return "/cart"

    def post_coupon(self, form: Fields) -> str:
        code = form.get("code", "").strip().upper()
        if code and code not in self.state["coupons"]:
            return self.get_cart({}, f"There is no coupon {code[:20]}.")
        self.state["coupon"] = code
        return "/cart"

    def get_checkout(self, query: Fields, note: str = "") -> str:
        if not self.state["cart"]:
            return "/cart"
        body = (
            f"<p>Total: {money(self._total())}</p><form method=post action=/checkout>"
            + choice("address", "Deliver to", sorted(self.state["addresses"]))
            + choice("shipping", "Shipping", list(SHIPPING.items()))
            + "<button>Place order</button></form>"
        )
        return self.page("Checkout", body, note)

    def post_checkout(self, form: Fields) -> str:
        cart = self.state["cart"]
        if not cart:
            return "/cart"
        if form.get("address") not in self.state["addresses"] or form.get("shipping") not in SHIPPING:
            return self.get_checkout({}, "Choose an address and a way of shipping.")
        order = {
            "id": f"A{1001 + len(self.state['orders'])}",
            "items": dict(sorted(cart.items())),
            "status": "placed",
            "address": form["address"],
            "shipping": form["shipping"],
            "coupon": self.state["coupon"],
            "total": self._total(),
        }
        self.state["orders"].append(order)
        self.state["cart"], self.state["coupon"] = {}, ""
        return f"/order?id={order['id']}"

    def get_orders(self, query: Fields) -> str:
        rows = [
            (link(f"/order?id={order['id']}", f"Order {order['id']}"), text(order["status"]), money(order["total"]))
            for order in reversed(self.state["orders"])
        ]
        return self.page("Orders", table(("Order", "Status", "Total"), rows))

    def get_order(self, query: Fields) -> str:
        order = next((candidate for candidate in self.state["orders"] if candidate["id"] == query.get("id")), None)
        if order is None:
            return self.page("Not found", "<p>There is no such order.</p>")
        rows = [(text(self._products[key]["name"]), str(number)) for key, number in order["items"].items()]
        body = table(("Product", "Quantity"), rows)
        body += f"<p>Deliver to: {text(order['address'])}. {SHIPPING[order['shipping']]}.</p>"
        body += f"<p>Total: {money(order['total'])}</p>"
        if order["status"] == "placed":
            body += button("/cancel", "Cancel order", id=order["id"])
        return self.page(f"Order {order['id']}", f"<p>Status: {text(order['status'])}</p>{body}")

    def post_cancel(self, form: Fields) -> str:
        for order in self.state["orders"]:
            if order["id"] == form.get("id") and order["status"] == "placed":
                order["status"] = "cancelled"
        return "/orders"

    def effects(self) -> dict[str, Any]:
        """Return the new orders, the cancelled orders, the wish list, and what is left in the cart."""
        known = {order["id"]: order["status"] for order in self.start["orders"]}
        orders = self.state["orders"]
        changes = {
            "ordered": [{k: v for k, v in order.items() if k != "id"} for order in orders if order["id"] not in known],
            "cancelled": sorted(o["id"] for o in orders if known.get(o["id"], o["status"]) != o["status"]),
            "wishes": sorted(self.state["wishes"]),
            "cart": dict(sorted(self.state["cart"].items())),
        }
        return {key: value for key, value in changes.items() if value}

    def _total(self) -> int:
        total: int = sum(number * self._products[key]["price"] for key, number in self.state["cart"].items())
        percent: int = self.state["coupons"].get(self.state["coupon"], 0)
        return total - total * percent // 100
