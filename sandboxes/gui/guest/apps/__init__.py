"""The bundled web applications. Their whole state is plain data; they need only the standard library of Python 3.9."""

from __future__ import annotations

from .calendar import Calendar
from .cards import Cards
from .form import Form
from .forum import Forum
from .mail import Mail
from .shop import Shop
from .wizard import Wizard

APPS = {
    "shop": Shop,
    "mail": Mail,
    "forum": Forum,
    "calendar": Calendar,
    "form": Form,
    "cards": Cards,
    "wizard": Wizard,
}
