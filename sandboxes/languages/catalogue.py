"""The languages by their names in tasks."""

from __future__ import annotations

from collections.abc import Mapping

from .c import C
from .cpp import CPP
from .go import GO
from .java import JAVA
from .javascript import JAVASCRIPT
from .language import Language
from .rust import RUST

LANGUAGES: Mapping[str, Language] = {
    "c": C,
    "cpp": CPP,
    "go": GO,
    "java": JAVA,
    "javascript": JAVASCRIPT,
    "rust": RUST,
}
