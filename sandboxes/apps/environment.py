"""`agentgym/apps-v1` and `agentgym/apps-code-v1`: eight apps with documented APIs, called one by one or from code."""

from __future__ import annotations

import time
from functools import cache
from importlib.resources import files
from typing import Any

from agentgym import Message, SandboxDied, SandboxSpec, Task, ToolError, tool
from agentgym.sandbox import Channel

from ..record_environment import StoreEnvironment
from .days import CalendarApp
from .money import BankApp, ShopApp
from .people import ContactsApp, MailApp, NotesApp
from .things import FilesApp, MusicApp

KINDS = (MailApp, CalendarApp, NotesApp, ShopApp, BankApp, ContactsApp, FilesApp, MusicApp)
SYSTEM = (
    "You use apps for somebody. Now it is {now}. Find out which apps there are and how their APIs are called; do what "
    "is asked and change nothing else; then finish."
)
RUN_S, MAX_CALLS = 20.0, 200


class AppsEnvironment(StoreEnvironment):
    """Base of the two environments with apps. Isolation: see the subclasses."""

    kinds = KINDS

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        opening = await super().reset(task, seed=seed)
        return [Message("system", SYSTEM.format(now=self.now)), *opening]

    @tool(name="apps", inline=True)
    def list_apps(self) -> str:
        """List the apps."""
        return self._observed.add("\n".join(f"{name}: {app.summary()}" for name, app in self.apps.items()))

    @tool(inline=True)
    def docs(self, app: str, api: str = "") -> str:
        """Read how the APIs of an app are called, or all about one."""
        text = self.app(app).documentation(api)
        self.conduct.read_documentation(app, api)
        return self._observed.add(text)

    @tool(final=True, inline=True, parallel=False)
    def finish(self, answer: str = "") -> str:
        """End the work, with the answer if a question was asked."""
        self.check_open()
        self.end_episode()
        return f"Finished. {self.record()}"


class Apps(AppsEnvironment):
    """Mail, calendar, notes, shop, bank, contacts, files and music behind documented APIs, called one by one.

    Everything is in memory and no code of the agent runs, so nothing is isolated. Episodes with equal seeds share
    records, but no episode can change them for another.

    Task parameters: `records`, the name of an asset such as "apps/year"; `seed`, given to the asset; `goal`, digests of
    the requested changes (optional; only the potential reads them).
    """

    task_set = "apps/year-v1"

    @tool(name="call", inline=True)
    def call_app(self, app: str, api: str, arguments: dict[str, Any]) -> Any:
        """Call an API of an app with its arguments by name."""
        value = self.call_api(app, api, arguments)
        self._observed.add(str(value))
        return value


class AppsCode(AppsEnvironment):
    """The same apps, called by Python in a sandbox: `apis.mail.search(text="rent")`. Isolated: the code.

    The records stay outside the sandbox: code can change them only by API calls, at most 200 per run. Each run has an
    empty sandbox, so nothing is left for the next run. A refused call raises `AppError`.

    Task parameters as of `agentgym/apps-v1`.
    """

    task_set = "apps/year-code-v1"

    sandbox = SandboxSpec(memory_mib=256, processes=16, disk_mib=32)

    @tool(parallel=False, timeout_s=60.0)
    async def run(self, code: str) -> str:
        """Run Python in which `apis.<app>.<api>(...)` calls an API; shows what it prints."""
        self.check_open()
        sandbox = await self.default_sandbox(empty=True)
        channel = await sandbox.open_channel(["python3", "-I", "-S", "-c", _client()])
        try:
            return self._observed.add(_report(await self._converse(channel, code)))
        except (SandboxDied, TimeoutError, ValueError, KeyError, TypeError) as error:
            await sandbox.exec(["true"])  # raises SandboxDied if the whole sandbox has died
            reason = f"took longer than {RUN_S:g} s" if isinstance(error, TimeoutError) else "broke off"
            raise ToolError(f"The code {reason}. What its calls have changed stays.") from None
        finally:
            await channel.close()

    async def _converse(self, channel: Channel, code: str) -> Any:
        """Run code, and serve its calls. Raises: as `Channel.request`; ToolError for too many calls."""
        apps = {
            name: {api: list(each.parameters["properties"]) for api, each in app.apis.items()}
            for name, app in self.apps.items()
        }
        message: dict[str, Any] = {"code": code, "apps": apps}
        began = time.monotonic()
        for _ in range(MAX_CALLS + 1):
            remaining_s = RUN_S + channel.waited_s - (time.monotonic() - began)
            if remaining_s <= 0:
                raise TimeoutError
            reply = await channel.request(message, timeout_s=remaining_s)
            if "app" not in reply:
                return reply
            message = self._answer(reply)
        raise ToolError(f"One run may call APIs {MAX_CALLS} times. What the calls have changed stays.")

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the reply to a request from the sandbox; the request may be anything that JSON can hold."""
        arguments = request["arguments"]
        if not isinstance(arguments, dict):
            raise TypeError("the arguments of a call must be an object")
        try:
            return {"value": self.call_api(str(request["app"]), str(request["api"]), arguments)}
        except ToolError as error:
            return {"error": str(error)}


def _report(reply: Any) -> str:
    """Return the report of a run, which the agent reads.

    Raises: KeyError, TypeError if it is not a reply: the agent's code may have written it.
    """
    output, status = reply["output"], reply["status"]
    if not isinstance(output, str) or type(status) is not int:
        raise TypeError("a call must return text, and a whole number as its status")
    text = output.rstrip("\n")
    notes = ["[output cut]"] if reply["cut"] else []
    if status < 0:
        notes.append(f"[ended by signal {-status}]")
    return "\n".join([*([text] if text else []), *notes]) or "[no output]"


@cache
def _client() -> str:
    return (files(__package__) / "guest_client.py").read_text(encoding="utf-8")
