"""The asset `apps/year`: a year of a person's records that are consistent across the apps.

Each order in the shop also appears as a payment in the bank, a mail from the shop, and an invoice among the files. A
contact's birthday is an event; an appointment is an event and a mail with a reference. Rent and utilities are paid
every month.
"""

from __future__ import annotations

import json
import random
from datetime import date, timedelta
from typing import Any

from agentgym import seed_of

from . import words

NOW = "2026-01-05 09:00"
FIRST_DAY = date(2025, 1, 1)
PEOPLE, ORDERS, MEETINGS = 36, 30, 60


def year(seed: int = 0) -> bytes:
    """The records as JSON: `now`, and the rows of all tables. Equal seeds give equal bytes."""
    return json.dumps({"now": NOW, "tables": Year(random.Random(seed_of("apps/year", seed))).tables()}).encode()


class Year:
    """Writes the records of a year, from one random stream."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._tables: dict[str, list[dict[str, Any]]] = {}
        self._names: list[str] = []  # of the contacts

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """Return all rows by table, ordered by date in tables with dates."""
        self._people()
        self._money()
        self._shop()
        self._appointments()
        self._letters()
        self._music()
        for rows in self._tables.values():
            rows.sort(key=lambda row: row.get("date", ""))  # in chronological order
        return {
            table: [{"id": number, **row} for number, row in enumerate(rows, 1)] for table, rows in self._tables.items()
        }

    def _add(self, table: str, **row: Any) -> None:
        self._tables.setdefault(table, []).append(row)

    def _day(self) -> str:
        return (FIRST_DAY + timedelta(days=self._rng.randrange(365))).isoformat()

    def _mail(self, day: str, sender: str, subject: str, body: str) -> None:
        moment = f"{day} {self._rng.randrange(7, 21):02d}:{self._rng.randrange(60):02d}"
        mail = {
            "folder": "inbox",
            "date": moment,
            "sender": sender,
            "recipient": "me",
            "subject": subject,
            "body": body,
        }
        self._add("mails", **mail, unread=self._rng.random() < 0.2)

    def _people(self) -> None:
        rng = self._rng
        self._names = sorted(
            f"{first} {last}"
            for first, last in zip(rng.sample(words.FIRST, PEOPLE), rng.choices(words.LAST, k=PEOPLE), strict=True)
        )
        rng.shuffle(self._names)
        for name in self._names:
            first, last = name.lower().split()
            birthday = (date(rng.randrange(1950, 2005), 1, 1) + timedelta(days=rng.randrange(365))).isoformat()
            phone = f"0{rng.randrange(10, 99)} {rng.randrange(100_000, 1_000_000)}"
            email = f"{first}.{last}@example.org"
            self._add("contacts", name=name, email=email, phone=phone, city=rng.choice(words.CITIES), birthday=birthday)
            self._add("events", date=f"2025{birthday[4:]}", time="08:00", title=f"birthday of {name}", location="")

    def _money(self) -> None:
        rng = self._rng
        landlord, salary, rent = rng.choice(self._names), rng.randrange(2_800, 3_600), rng.randrange(600, 900)
        monthly = [(landlord, rent)] + [(party, rng.randrange(12, 90)) for party in rng.sample(words.UTILITIES, 5)]
        for party, amount in monthly:
            self._add("standing_orders", party=party, amount=amount, day=rng.randrange(1, 29))
        for month in range(1, 13):
            self._add("payments", date=f"2025-{month:02d}-01", party="Harbour Works", amount=salary, text="salary")
            for party, amount in monthly:
                spent = amount + (0 if party == landlord else rng.randrange(6))
                self._add("payments", date=f"2025-{month:02d}-03", party=party, amount=-spent, text="monthly")
            for shop in rng.sample(words.SHOPS, 4):
                for _ in range(rng.randrange(1, 4)):
                    day = f"2025-{month:02d}-{rng.randrange(4, 29):02d}"
                    self._add("payments", date=day, party=shop, amount=-rng.randrange(3, 60), text="card")

    def _shop(self) -> None:
        rng = self._rng
        for name in words.PRODUCTS:
            self._add("products", name=name, price=rng.randrange(5, 95), stock=rng.randrange(3, 40))
        days = sorted(self._day() for _ in range(ORDERS - 4)) + sorted(
            f"2026-01-0{rng.randrange(1, 5)}" for _ in range(4)
        )
        for day, index in zip(days, rng.sample(range(len(words.PRODUCTS)), ORDERS), strict=True):
            product, quantity = self._tables["products"][index], rng.choice((1, 1, 1, 2, 3))
            total, status = product["price"] * quantity, "ordered" if day > "2026" else "delivered"
            self._add("orders", date=day, product_id=index + 1, quantity=quantity, total=total, status=status)
            text = f"{quantity} x {product['name']}"
            self._add("payments", date=day, party="Corner Shop", amount=-total, text=text)
            parcel = f"P{rng.randrange(10_000, 100_000)}"
            self._mail(
                day,
                "orders@corner-shop.example",
                f"Your {product['name']}",
                f"{text}, {total} crowns. Parcel {parcel}.",
            )
            invoice = f"invoice for {text}\ntotal {total}\nnumber {rng.randrange(100_000, 1_000_000)}"
            self._add("files", path=f"invoices/{product['name'].replace(' ', '-')}.txt", content=invoice, modified=day)

    def _appointments(self) -> None:
        rng = self._rng
        for title in words.APPOINTMENTS:
            day, hour = self._day(), rng.randrange(8, 18)
            self._add(
                "events",
                date=day,
                time=f"{hour:02d}:{rng.choice((0, 15, 30, 45)):02d}",
                title=title,
                location=rng.choice(words.LOCATIONS),
            )
            reference = f"{rng.choice('ABCDEFGH')}{rng.randrange(1_000, 10_000)}"
            self._mail(
                day, f"desk@{title.replace(' ', '-')}.example", f"Your {title}", f"Your reference is {reference}."
            )
        for _ in range(MEETINGS):
            title = f"{rng.choice(('lunch', 'call', 'walk'))} with {rng.choice(self._names)}"
            self._add(
                "events",
                date=self._day(),
                time=f"{rng.randrange(9, 18):02d}:30",
                title=title,
                location=rng.choice(words.LOCATIONS),
            )

    def _letters(self) -> None:
        rng = self._rng
        for topic in words.TOPICS:
            person = rng.choice(self._names)
            address = f"{person.lower().replace(' ', '.')}@example.org"
            self._mail(
                self._day(), address, topic, f"About the {topic}: let us meet at the {rng.choice(words.LOCATIONS)}."
            )
            lines = "\n".join(rng.sample(words.ITEMS, rng.randrange(3, 7)))
            self._add("notes", title=topic, body=lines, date=self._day())
            code = f"{rng.choice(words.CITIES)} {rng.randrange(100, 1_000)}"
            path = f"{rng.choice(words.FOLDERS)}/{topic.replace(' ', '-')}.txt"
            self._add("files", path=path, content=f"{topic}\nkeyword {code}", modified=self._day())
        for _ in range(60):
            person = rng.choice(self._names)
            self._mail(
                self._day(),
                f"{person.lower().replace(' ', '.')}@example.org",
                "Hello",
                f"Greetings from {rng.choice(words.CITIES)}.",
            )

    def _music(self) -> None:
        rng = self._rng
        titles = [f"{first} {second}" for first in words.SONG_FIRST for second in words.SONG_SECOND]
        for title in rng.sample(titles, 60):
            self._add("songs", title=title, artist=rng.choice(words.ARTISTS), seconds=rng.randrange(120, 400))
        for number, name in enumerate(words.PLAYLISTS, 1):
            self._add("playlists", name=name)
            for song in rng.sample(range(1, 61), rng.randrange(4, 10)):
                self._add("tracks", playlist_id=number, song_id=song)
