"""Makes the search over turns that a text names."""

from __future__ import annotations

from agentgym.credit.named_parts import load_named_part
from agentgym.errors import CreditError, SearchError, UnknownNameError
from agentgym.rollout.search import EpisodeSearch


def make_search(text: str) -> EpisodeSearch:
    """Create the search that a text describes, such as `best_first(nodes=200, value='log_prob')`.

    Raises: SearchError for an unknown name or option, listing the known ones.
    """
    try:
        search: EpisodeSearch = load_named_part("searches", text)()
        search.describe()  # loads the search's parts, so that a wrong name raises before anything is played
    except (CreditError, UnknownNameError) as error:
        raise SearchError(f"search = {text!r} cannot be used: {error}") from error
    return search
