"""Knowledge that persists over a run: what training episodes taught, offered to later ones.

lessons.py  what an episode teaches: plans that reached goals, and the agent's notes
store.py    KnowledgeStore: keeps a bounded number of lessons in memory and in a file; Knowledge: a snapshot of it
gatherer.py the gatherer `knowledge`: shows the episodes of each step what earlier steps taught
notes.py    with_notes: adds a tool `note` to any environment
"""

from .lessons import Lesson, Teacher, lessons_of
from .notes import NoteTaking, with_notes
from .store import Knowledge, KnowledgeStore

__all__ = ["Knowledge", "KnowledgeStore", "Lesson", "NoteTaking", "Teacher", "lessons_of", "with_notes"]
