"""Knowledge that lasts over a run: what training episodes have taught, offered to later ones.

lessons.py  what an episode teaches: plans that reached goals, and notes that the agent took
store.py    KnowledgeStore: keeps them, bounded, in memory and in a file; Knowledge: as it stands at one moment
gatherer.py the gatherer `knowledge`: shows each step what earlier ones have taught
notes.py    with_notes: any environment, with a tool `note`
"""

from .lessons import Lesson, Teacher, lessons_of
from .notes import NoteTaking, with_notes
from .store import Knowledge, KnowledgeStore

__all__ = ["Knowledge", "KnowledgeStore", "Lesson", "NoteTaking", "Teacher", "lessons_of", "with_notes"]
