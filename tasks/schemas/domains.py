"""The domains: the names of their three tables and the columns of each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

DOMAINS = """
library: publishers publisher; name title, city city, founded year
  books book; title title, genre [atlas comic essay novel poem], pages 80-900, price money
  loans loan; member person, day date, weeks 1-40
school: departments department; name title, campus city, budget 20-900
  courses course; title title, level [basic advanced master evening], seats 10-400, fee money
  enrolments enrolment; student person, day date, score 1-100
clinic: wards ward; name title, site city, beds 4-90
  patients patient; name person, blood_type [A B AB O], age 1-99, bill money
  visits visit; doctor person, day date, minutes 5-180
airline: airlines airline; name title, home city, fleet 3-400
  flights flight; code code, cabin [economy business first cargo], distance 120-9000, fare money
  bookings booking; passenger person, day date, bags 0-40
cinema: studios studio; name title, city city, opened year
  films film; title title, rating [family teen adult festival], length 60-400, ticket money
  screenings screening; host person, day date, viewers 5-500
farm: farms farm; name title, county city, hectares 5-900
  fields field; name title, crop [barley beans corn rye wheat], area 1-400, rent money
  harvests harvest; driver person, day date, tonnes 1-300
bank: branches branch; name title, city city, desks 2-80
  accounts account; holder person, kind [savings current joint youth], years 1-400, balance money
  transfers transfer; clerk person, day date, amount 1-900
music: labels label; name title, city city, founded year
  albums album; title title, style [choir folk jazz rock opera], tracks 4-400, price money
  sales sale; buyer person, day date, copies 1-200
museum: museums museum; name title, city city, rooms 2-90
  artworks artwork; title title, medium [bronze glass oil paper wood], height 5-600, value money
  restorations restoration; restorer person, day date, hours 1-300
football: clubs club; name title, city city, seats 500-9000
  players player; name person, position [back forward keeper winger], caps 0-400, wage money
  transfers_in transfer; agent person, day date, fee 1-900
hotel: hotels hotel; name title, city city, floors 1-80
  rooms room; label code, kind [single double suite loft], size 9-400, rate money
  stays stay; guest person, day date, nights 1-60
rail: depots depot; name title, city city, tracks 2-60
  trains train; code code, class [express local night freight], seats 20-900, cost money
  repairs repair; fitter person, day date, parts 1-90
garden: nurseries nursery; name title, town city, staff 2-90
  plants plant; name title, light [shade sun half any], height 3-600, price money
  orders_placed order; client person, day date, pots 1-90
vineyard: estates estate; name title, region city, acres 3-700
  wines wine; name title, colour [red white rose amber], vintage 1950-2300, price money
  tastings tasting; judge person, day date, points 1-100
harbour: harbours harbour; name title, city city, berths 4-300
  ships ship; name title, kind [ferry tanker trawler yacht], length 6-400, dues money
  voyages voyage; captain person, day date, days_out 1-90
theatre: theatres theatre; name title, city city, boxes 2-60
  plays play; title title, form [comedy drama farce tragedy], acts 1-400, royalty money
  performances performance; lead person, day date, audience 20-900
"""
"""Three lines per domain: the table of parents, that of their children, and that of the children's events.

A line has the form `name singular; column kind, ...`; the domain's name begins the first.
"""

UNSEEN = ("garden", "vineyard", "harbour", "theatre")
"""Domains that are never trained on."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column. Its kind is `title`, `person`, `code`, `city`, `date`, `year`, `money`, `choice` or `number`."""

    name: str
    kind: str
    choices: tuple[str, ...] = ()
    low: int = 0
    high: int = 0

    @property
    def words(self) -> str:
        """Return the column's name in the form used in questions."""
        return self.name.replace("_", " ")


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Its columns are `id`, then its parent's key (`<parent's singular>_id`) if it has a parent, then `columns`.
    """

    name: str
    singular: str
    columns: tuple[Column, ...]

    @property
    def words(self) -> str:
        return self.name.replace("_", " ")

    def of_kind(self, *kinds: str) -> list[Column]:
        return [column for column in self.columns if column.kind in kinds]


@dataclass(frozen=True, slots=True)
class Domain:
    """A domain has three tables: parents, their children, and the events of the children."""

    name: str
    number: int
    parent: Table
    child: Table
    event: Table

    @property
    def tables(self) -> tuple[Table, Table, Table]:
        return self.parent, self.child, self.event


@cache
def domains() -> tuple[Domain, ...]:
    """Return all domains, in the order of their numbers."""
    lines = DOMAINS.strip().splitlines()
    parsed = []
    for number, start in enumerate(range(0, len(lines), 3)):
        name, _, parent = lines[start].partition(": ")
        tables = [_table(line) for line in (parent, lines[start + 1], lines[start + 2])]
        parsed.append(Domain(name, number, *tables))
    return tuple(parsed)


def _table(line: str) -> Table:
    names, _, columns = line.strip().partition("; ")
    name, singular = names.split()
    return Table(name, singular, tuple(_column(text) for text in columns.split(", ")))


def _column(text: str) -> Column:
    name, _, kind = text.partition(" ")
    if kind.startswith("["):
        return Column(name, "choice", choices=tuple(kind.strip("[]").split()))
    if span := re.fullmatch(r"(\d+)-(\d+)", kind):
        return Column(name, "number", low=int(span[1]), high=int(span[2]))
    return Column(name, kind)
