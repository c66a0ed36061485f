"""Folders of pages for tests of the web environment, and what asks them."""

from __future__ import annotations

import agentgym
from agentgym import Call, Task

PAGE = "<!DOCTYPE html><html><head><meta charset=utf-8><title>{title}</title></head><body>{body}</body></html>"


class Visit:
    """An open environment, with its calls as methods: `await visit.click(element=3)` gives the result's text."""

    def __init__(self, environment, opening):
        self.environment, self.opening = environment, opening
        self.page = opening[-1].text

    @classmethod
    async def to(cls, task, **options):
        environment = agentgym.make(task.environment, **options)
        try:
            return cls(environment, await environment.reset(task, seed=0))
        except BaseException:
            await environment.close()
            raise

    async def call(self, tool, **arguments):
        result = await self.environment.call(Call(tool, arguments))
        if result.ok:
            self.page = result.message().text
        return result

    def number(self, label):
        """The number of the element whose line begins with a label."""
        for line in self.page.splitlines():
            head, _, rest = line.strip().partition("] ")
            if rest == label or rest.startswith(f"{label} "):
                return int(head[1:])
        raise AssertionError(f"{label} is not on the page:\n{self.page}")

    async def click(self, label):
        return await self.call("click", element=self.number(label))

    async def type(self, label, text):
        return await self.call("type", element=self.number(label), text=text)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *error):
        await self.environment.close()


def folder_of(path, environment="agentgym/web-v1", parameters=(), **bodies):
    """Write pages, by name, into a folder. Returns: a task that begins at the first of them."""
    for name, body in bodies.items():
        (path / f"{name}.html").write_text(PAGE.format(title=name, body=body), encoding="utf-8")
    return Task(
        "folder",
        environment,
        "Look around.",
        parameters={"site": "folder", "folder": str(path), "page": f"{next(iter(bodies))}.html", **dict(parameters)},
        truth={"answer": "yes"},
    )
