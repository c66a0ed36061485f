"""An offline web: `agentgym/search-v1` browses it, `agentgym/search-retrieve-v1` only has a retriever."""

from .environment import Search, landmark
from .index import open_library
from .live import LiveSearch
from .reading import ExtractiveReader, PolicyReader
from .retrieve import SearchRetrieve

__all__ = ["ExtractiveReader", "LiveSearch", "PolicyReader", "Search", "SearchRetrieve", "landmark", "open_library"]
