"""An environment with one tool and one task, played by a script.

python examples/tool_environment.py
"""

from __future__ import annotations

import asyncio

from agentgym import Call, Environment, EpisodeManager, Message, ScriptedPolicy, Task, ToolError, register, tool


class PhoneBook(Environment):
    """A phone book of two people. In memory: nothing here needs isolation."""

    async def reset(self, task, *, seed):
        self.numbers = dict(task.parameters["numbers"])
        return task.opening()

    @tool
    def look_up(self, name: str) -> str:
        """Return the phone number of a person.

        Args:
            name: first name, as it stands in the book.
        """
        if name not in self.numbers:
            raise ToolError(f"Nobody is called {name!r}. The book has {', '.join(self.numbers)}.")
        return self.numbers[name]


async def main() -> None:
    register("acme/phone-book-v1", PhoneBook)
    task = Task(
        "call-ada",
        "acme/phone-book-v1",
        "What is Ada's phone number?",
        parameters={"numbers": {"Ada": "555-0199", "Grace": "555-0142"}},
    )
    agent = ScriptedPolicy(
        [
            Message("assistant", "", (Call("look_up", {"name": "ada"}),)),
            Message("assistant", "", (Call("look_up", {"name": "Ada"}),)),
            Message("assistant", "Ada's number is 555-0199."),
        ]
    )
    [episode] = await EpisodeManager(agent).collect([task])
    for message in episode.messages():
        print(f"{message.role:>9}: {message.text or message.calls[0]}")
    print(f"The episode ended with stop reason {episode.stop_reason}.")


if __name__ == "__main__":
    asyncio.run(main())
