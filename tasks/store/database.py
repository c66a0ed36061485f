"""The store: builds an SQLite database of eleven tables, the same bytes for the same seed."""

# ruff: noqa: SIM905 - a list of words is easier to read as one string that is split

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from datetime import date, timedelta
from functools import cache

from agentgym import seed_of

from .names import Cast, cast

SCHEMA = """
CREATE TABLE categories (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE suppliers (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, phone TEXT, email TEXT, city TEXT);
CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, sku TEXT, price REAL,
    category_id INTEGER REFERENCES categories(id), supplier_id INTEGER REFERENCES suppliers(id));
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, phone TEXT, email TEXT, city TEXT);
CREATE TABLE employees (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, phone TEXT, email TEXT, hired TEXT,
    manager_id INTEGER REFERENCES employees(id));
CREATE TABLE warehouses (id INTEGER PRIMARY KEY, name TEXT NOT NULL, city TEXT);
CREATE TABLE stock (warehouse_id INTEGER REFERENCES warehouses(id), product_id INTEGER REFERENCES products(id),
    units INTEGER);
CREATE TABLE orders (id INTEGER PRIMARY KEY, code TEXT NOT NULL UNIQUE, customer_id INTEGER REFERENCES customers(id),
    employee_id INTEGER REFERENCES employees(id), placed TEXT);
CREATE TABLE order_lines (order_id INTEGER REFERENCES orders(id), product_id INTEGER REFERENCES products(id),
    quantity INTEGER, unit_price REAL);
CREATE TABLE payments (order_id INTEGER REFERENCES orders(id), paid TEXT, method TEXT);
CREATE TABLE returns (order_id INTEGER REFERENCES orders(id), product_id INTEGER REFERENCES products(id), reason TEXT);
"""

CITIES = "Aston Bergen Calder Dover Elgin Fulda Genoa Hamar Izmir Kiel Lodz Malmo Namur Oslo Porto Riga".split()
CATEGORIES = "Bath Bedroom Garden Hall Kitchen Lighting Living Office Outdoor Storage".split()
WORDS = (
    "acorn apple aspen bee birch bird bloom brook cloud clover coal comet crane creek daisy dawn deer dove dune "
    "ember fern finch flint frost glade gold hazel heron hill iris ivy jade lark leaf lily lime lynx maple mint "
    "moon moss oak olive onyx otter owl pearl pine plum pond poppy quail quill rain reed robin rose rowan ruby "
    "sage sand seal shell sky snow spark star stone storm swan teal thorn tide vale vine violet wave willow wind "
    "wolf wren "
).split()
MAIL = ("mail.com", "post.net", "inbox.org", "web.net")
FIRST_DAY, DAYS = date(2021, 1, 4), 1_400


@cache
def database(seed: int = 0) -> bytes:
    """The store as an SQLite file, about 400 KB.

    Names and order codes are the same for every seed. Attributes, keys and links between rows differ, so that the
    answers for one database are wrong in another.
    """
    rng = random.Random(seed_of("sql/store", "database", seed))
    connection = sqlite3.connect(":memory:")
    try:
        connection.executescript(SCHEMA)
        _fill(connection, rng, cast())
        connection.commit()
        connection.execute("VACUUM")
        return connection.serialize()
    finally:
        connection.close()


def _fill(connection: sqlite3.Connection, rng: random.Random, names: Cast) -> None:
    """Insert every row. Keys are random numbers of four to six digits, so that no value can be guessed."""
    facts = _Facts(rng)

    def insert(table: str, rows: list[tuple[object, ...]]) -> None:
        connection.executemany(f"INSERT INTO {table} VALUES ({','.join('?' * len(rows[0]))})", rows)

    categories, warehouses = facts.keys(len(CATEGORIES), 10), facts.keys(6, 10)
    suppliers, employees = facts.keys(len(names.supplier), 1_000), facts.keys(len(names.employee), 1_000)
    products, customers = facts.keys(len(names.product), 1_000), facts.keys(len(names.customer), 1_000)
    orders = facts.keys(len(names.order), 10_000)
    insert("categories", list(zip(categories, CATEGORIES, strict=True)))
    insert("warehouses", [(key, f"Depot {n + 1}", CITIES[n]) for n, key in enumerate(warehouses)])
    for table, keys, people in (("suppliers", suppliers, names.supplier), ("customers", customers, names.customer)):
        rows = zip(keys, people, strict=True)
        insert(table, [(key, name, facts.phone(), facts.email(), rng.choice(CITIES)) for key, name in rows])
    managers = employees[: len(employees) // 2]
    insert(
        "employees",
        [
            (key, name, facts.phone(), facts.email(), facts.day(), rng.choice([m for m in managers if m != key]))
            for key, name in zip(employees, names.employee, strict=True)
        ],
    )
    prices = {key: facts.price() for key in products}
    makers = rng.sample(suppliers, len(suppliers)) + rng.choices(suppliers, k=len(products) - len(suppliers))
    insert(
        "products",
        [
            (key, name, facts.sku(), prices[key], rng.choice(categories), maker)
            for key, name, maker in zip(products, names.product, makers, strict=True)
        ],
    )
    insert("stock", [(rng.choice(warehouses), key, rng.randrange(1, 500)) for key in products])
    placed = {key: facts.day() for key in orders}
    buyers = facts.buyers(placed, customers)
    coded = zip(orders, names.order, strict=True)
    insert("orders", [(key, code, buyers[key], rng.choice(employees), placed[key]) for key, code in coded])
    lines = [(order, product) for order in orders for product in rng.sample(products, rng.choice((1, 2, 2, 3)))]
    insert("order_lines", [(o, p, rng.randrange(1, 7), facts.near(prices[p])) for o, p in lines])
    paid = rng.sample(orders, len(orders) // 4)
    insert("payments", [(key, facts.after(placed[key]), rng.choice(("card", "cash", "transfer"))) for key in paid])
    insert("returns", [(*line, rng.choice(("broken", "late", "wrong item"))) for line in rng.sample(lines, 120)])


class _Facts:
    """Draws attribute values that cannot be guessed; phone numbers, e-mail addresses and SKUs never repeat."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._used: set[str] = set()

    def keys(self, count: int, low: int) -> list[int]:
        return self._rng.sample(range(low, low * 10), count)

    def phone(self) -> str:
        return self._new(lambda: f"{self._rng.randrange(200, 1000)}-{self._rng.randrange(10_000):04d}")

    def email(self) -> str:
        pick = self._rng
        return self._new(lambda: f"{pick.choice(WORDS)}{pick.randrange(100, 1000)}@{pick.choice(MAIL)}")

    def sku(self) -> str:
        pick = self._rng
        return self._new(lambda: f"{''.join(pick.choices('ABCDEFGHKLMNPRSTVXZ', k=2))}-{pick.randrange(1_000, 10_000)}")

    def price(self) -> float:
        """Return a price from 5.01 to 499.99, never a multiple of ten cents, so that it is written with two
        decimals.
        """
        return round(self._rng.randrange(50, 5_000) / 10 + self._rng.randrange(1, 10) / 100, 2)

    def near(self, price: float) -> float:
        """Return a price that was paid earlier, within 10% of the listed price."""
        return round(round(price * self._rng.uniform(0.9, 1.1), 1) + self._rng.randrange(1, 10) / 100, 2)

    def day(self) -> str:
        return (FIRST_DAY + timedelta(days=self._rng.randrange(DAYS))).isoformat()

    def after(self, day: str) -> str:
        return (date.fromisoformat(day) + timedelta(days=self._rng.randrange(1, 30))).isoformat()

    def buyers(self, placed: dict[int, str], customers: list[int]) -> dict[int, int]:
        """Return a customer for every order. No customer orders twice on one day, so that "the latest order" is
        unambiguous.
        """
        first = self._rng.sample(customers, len(customers))
        taken: set[tuple[int, str]] = set()
        customer_by_order = {}
        for index, (order, day) in enumerate(placed.items()):
            customer = first[index] if index < len(first) else self._rng.choice(customers)
            while (customer, day) in taken:
                customer = self._rng.choice(customers)
            taken.add((customer, day))
            customer_by_order[order] = customer
        return customer_by_order

    def _new(self, draw: Callable[[], str]) -> str:
        while (value := draw()) in self._used:
            pass
        self._used.add(value)
        return value
