"""The recipe's [vllm]: a server that samples instead of the process that trains."""

from __future__ import annotations

from collections import Counter

from pydantic import model_validator

from agentgym.options import Seconds, Section


class VllmSection(Section):
    """A vLLM server, or several, that samples every reply of the agent, in training and in measurements.

    Without `url` a server is started for the run, on a socket that only this user reaches, and ends with it.

    `url`: of a server that runs already, for example "http://10.0.0.5:8000", or a list of them. An episode stays on one
    of several, and one that fails or hangs is left out (see PolicyPool). `model`: the name by which it serves the
    model; by default the first that it lists. `folder`: where the weights are written for it to read, which must be the
    same folder on all machines; by default one in the run's folder. `deadline_s`: one of several servers that has not
    answered a request, or taken new weights, for so many seconds is left out.
    `python`: the interpreter of an environment that has vLLM, to start the server with; by default the one that trains.
    `gpus`: which ones the started server uses, for example "1" or "2,3"; by default all, of which it then takes
    four tenths of the memory. `options`: its further arguments, as `vllm serve` takes them, for example
    ["--max-model-len=4096"]. `start_s`: seconds after which it must be ready.
    """

    url: str | list[str] | None = None
    model: str | None = None
    folder: str | None = None
    python: str | None = None
    gpus: str | None = None
    options: list[str] = []
    start_s: Seconds = 600.0
    deadline_s: Seconds = 300.0

    @property
    def urls(self) -> list[str]:
        """Of servers that run already."""
        return [self.url] if isinstance(self.url, str) else list(self.url or ())

    @model_validator(mode="after")
    def _one_server(self) -> VllmSection:
        of_started = [key for key in ("python", "gpus", "options") if getattr(self, key)]
        if self.url is not None and not self.urls:
            raise ValueError("url is an empty list; name a server, or leave it out to have one started")
        if twice := [url for url, count in Counter(self.urls).items() if count > 1]:
            raise ValueError(f"url names {twice[0]!r} twice")
        if self.url is not None and of_started:
            raise ValueError(f"{of_started[0]} is for a server that the run starts, and url names one that runs")
        if self.url is None and self.model is not None:
            raise ValueError("model is for a server that runs already; give its url")
        return self
