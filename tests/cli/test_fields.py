"""Options of commands are fields of classes: their types, defaults, limits and texts are those of the fields."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer
from typer.testing import CliRunner

from agentgym import Budgets, RolloutConfig
from agentgym.cli.app import app as agentgym
from agentgym.cli.fields import Fields, FieldsCommand, takes
from agentgym.cli.rollout_options import RolloutOptions
from agentgym.options import Count, Registered, validated_dataclass
from agentgym.registry import load


@validated_dataclass(kw_only=True)
class Inner:
    """Options inside others."""

    turns: Count = 4
    """How many turns are taken."""
    share: float | None = None
    """The share [0, 1] that is kept.

    None keeps all."""


@dataclass(frozen=True, kw_only=True)
class Outer:
    """Options of a command."""

    path: Annotated[Path, typer.Argument(metavar="FILE")]
    """The file to read."""
    inner: Inner = field(default_factory=Inner)
    mode: Literal["fast", "slow"] = "fast"
    """How it is read."""
    reward: Annotated[object | str | None, Registered("rewards")] = None
    """Who judges."""
    anything: Any = None
    """Not an option: text cannot say it."""


seen: list[Any] = []


def command(*words: str, **sources: Any) -> Any:
    app = typer.Typer(add_completion=False, rich_markup_mode="rich")

    @app.command("read", cls=FieldsCommand)
    @takes(**sources)
    def read(outer: Outer, last: Annotated[int, typer.Option(help="The command's own.")] = 3) -> None:
        """Read a file."""
        seen.append((outer, last))

    seen.clear()
    return CliRunner().invoke(app, list(words), env={"COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb"})


def test_a_command_gets_an_instance_with_the_values_of_its_options():
    done = command("f.txt", "--turns", "2", "--mode", "slow", "--last", "7", outer=Outer)
    assert done.exit_code == 0, done.output
    assert seen == [(Outer(path=Path("f.txt"), inner=Inner(turns=2), mode="slow"), 7)]


def test_the_help_shows_defaults_limits_and_the_first_paragraph_of_each_text():
    help_text = " ".join(command("--help", outer=Outer).output.split())
    for text in (
        "FILE",
        "The file to read.",
        "How many turns are taken.",
        "[default: 4]",
        "The share [0, 1] that is kept.",
    ):
        assert text in help_text
    for text in ("None keeps all", "--anything", "--inner"):
        assert text not in help_text


def test_a_command_may_take_some_fields_under_other_names_and_with_other_defaults():
    def later() -> Fields:
        return Fields(Outer, {"file": "path", "rounds": "turns"}, {"rounds": 9})

    assert command("f.txt", outer=later).exit_code == 0
    assert seen == [(Outer(path=Path("f.txt"), inner=Inner(turns=9)), 3)]
    assert "--mode" not in command("--help", outer=later).output
    with pytest.raises(ValueError, match="Outer has no option 'turn', so no default can be set"):
        raise command("--help", outer=Fields(Outer, defaults={"turn": 3})).exception


def test_a_value_that_the_class_refuses_is_named_with_its_meaning():
    refused = command("f.txt", "--turns", "0", outer=Outer).exception
    assert str(refused) == "Inner.turns is 0: input should be greater than 0 (turns: How many turns are taken.)."
    assert command("f.txt", "--reward", "nobody", outer=Outer).exit_code == 1


def test_every_option_of_every_command_says_what_it_does():
    silent = [f"{' '.join(words)} {parameter.name}" for words, parameter in _parameters() if not parameter.help]
    assert silent == []


def test_help_has_every_option_whole_at_80_columns():
    help_text = cache(lambda *words: CliRunner().invoke(agentgym, [*words, "--help"], env={"COLUMNS": "80"}).stdout)
    for words, parameter in _parameters():
        assert "…" not in help_text(*words)
        if parameter.param_type_name == "option" and not parameter.hidden:
            assert re.search(rf"^  .*{parameter.opts[0]}\b", help_text(*words), re.MULTILINE), (words, parameter.opts)


def _parameters() -> list[tuple[list[str], Any]]:
    """Return every parameter of every command with the words of the command."""
    parameters = []

    def walk(group: Any, words: list[str]) -> None:
        for name, inner in group.commands.items():
            if hasattr(inner, "commands"):
                walk(inner, [*words, name])
                continue
            context: Any = inner.make_context(name, [], resilient_parsing=True)
            parameters.extend(([*words, name], parameter) for parameter in inner.get_params(context))

    walk(typer.main.get_command(agentgym), [])
    return parameters


def test_every_field_of_a_rollout_config_that_text_can_say_is_an_option_of_rollout():
    options = {parameter.name for words, parameter in _parameters() if words == ["rollout"]}
    names = {each.name for cls in (RolloutConfig, Budgets) for each in fields(cls)}
    assert names - options == {"budgets", "environment_options", "hooks", "source_options", "stop_if"}


def test_the_options_of_rollout_without_any_are_the_default_config():
    assert RolloutOptions().make_config() == RolloutConfig()
    assert RolloutOptions(attempts=3).make_config() == RolloutConfig(attempts=load("episode_hooks", "attempts")(n=3))


def test_the_help_of_all_commands_imports_neither_numpy_nor_pydantic():
    code = "import sys; from agentgym.cli.app import app; app(['--help'], standalone_mode=False)\n"
    code += "print(*sorted({'numpy', 'pydantic'} & sys.modules.keys()), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr.strip()) == (0, "")
