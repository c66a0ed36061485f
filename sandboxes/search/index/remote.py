"""A retriever on another host, called with the protocol of Search-R1's server: `POST /retrieve`."""

from __future__ import annotations

from typing import Any

from agentgym import PolicyError, SandboxError
from agentgym.policy import JsonEndpoint

from .page_store import Page
from .retrievers import Hit

MAX_CONTENT_CHARS = 100_000


class RemoteRetriever:
    """Sends `{"queries": [...], "topk": k, "return_scores": true}` to a server, such as our `search_server`.

    Args:
        url: the server's URL without `/retrieve`, for example http://127.0.0.1:8000. Only the user of the gym may
            choose it, never a task or an agent.
    """

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/").removesuffix("/retrieve")
        self._endpoint = JsonEndpoint(self.url)

    async def search(self, query: str, k: int) -> list[Hit]:
        """Ask the server. Raises: SandboxError if it cannot be reached, or its answer does not follow the protocol."""
        try:
            answer = await self._endpoint.post("/retrieve", {"queries": [query], "topk": k, "return_scores": True})
        except PolicyError as error:
            raise SandboxError(f"The retriever {self.url} failed: {error}") from error
        try:
            (rows,) = answer["result"]
            return [self._hit(row) for row in rows[:k]]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise SandboxError(
                f'The retriever {self.url} must answer {{"result": [[{{"document": {{"id", "contents"}}, '
                f'"score"}}]]}}, but it answered {str(answer)[:200]!r}.'
            ) from error

    async def close(self) -> None:
        await self._endpoint.close()

    @staticmethod
    def _hit(row: dict[str, Any]) -> Hit:
        document = row.get("document", row)  # without scores, a row is the document itself
        first, _, rest = str(document["contents"])[:MAX_CONTENT_CHARS].partition("\n")
        title = " ".join(first.strip().strip('"').split())
        return Hit(Page(str(document.get("id", title)), title, rest), float(row.get("score", 0.0)))
