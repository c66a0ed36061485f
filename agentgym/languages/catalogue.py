"""The languages by the name that tasks give them."""

from __future__ import annotations

from collections.abc import Mapping

from agentgym.languages.c import C
from agentgym.languages.cpp import CPP
from agentgym.languages.go import GO
from agentgym.languages.java import JAVA
from agentgym.languages.javascript import JAVASCRIPT
from agentgym.languages.language import Language
from agentgym.languages.rust import RUST

LANGUAGES: Mapping[str, Language] = {
    "c": C,
    "cpp": CPP,
    "go": GO,
    "java": JAVA,
    "javascript": JAVASCRIPT,
    "rust": RUST,
}
