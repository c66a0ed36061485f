"""The recipe's [vllm]: the servers that sample from the trained model."""

from __future__ import annotations

from collections import Counter

from pydantic import model_validator

from agentgym.number_types import Count, Positive
from agentgym.options import Section


class VllmSection(Section):
    """A vLLM server, or several, that samples every reply of the agent, in training and in measurements.

    Without `url`, a server is started for the run, on a socket that only this user can reach, and ends with the run.
    """

    url: str | list[str] | None = None
    """The address of a server that runs already, for example "http://10.0.0.5:8000", or a list of addresses. An episode
    stays on one of several servers, and a server that fails or hangs is left out (see PolicyPool)."""
    model: str | None = None
    """The name by which a running server serves the model. By default it is the first model that the server lists."""
    folder: str | None = None
    """The folder in which the server reads new weights. It must be the same folder on all machines. By default it is in
    the run's folder.
    """
    python: str | None = None
    """The interpreter of an environment that has vLLM, to start the server with. By default it is the interpreter that
    trains."""
    gpus: str | None = None
    """Which GPUs the started server uses, for example "1" or "2,3". By default it uses all, and 40% of their memory."""
    options: list[str] = []
    """Further arguments of the started server, as `vllm serve` takes them, for example ["--max-model-len=4096"]."""
    start_s: Positive = 600.0
    """The seconds within which a started server must be ready."""
    connections: Count = 256
    """The number of requests that this process has open at each server; further ones wait. On a cluster each node whose
    worker asks the servers itself has as many."""
    deadline_s: Positive = 300.0
    """The number of seconds in which one of several servers must answer a request or load new weights. A slower server
    is left out.
    """

    @property
    def urls(self) -> list[str]:
        """The addresses of servers that run already."""
        return [self.url] if isinstance(self.url, str) else list(self.url or ())

    @model_validator(mode="after")
    def _one_server(self) -> VllmSection:
        of_started = [key for key in ("python", "gpus", "options") if getattr(self, key)]
        if self.url is not None and not self.urls:
            raise ValueError("url is an empty list: name a server, or leave url out to have one started")
        if twice := [url for url, count in Counter(self.urls).items() if count > 1]:
            raise ValueError(f"url lists {twice[0]!r} twice: give each server once")
        if self.url is not None and of_started:
            raise ValueError(
                f"{of_started[0]} applies to a server that the run starts, but url names one that is already running: "
                "leave out one of them"
            )
        if self.url is None and self.model is not None:
            raise ValueError("model names the model of a server that is already running: give its url as well")
        return self
