"""The page of published systems is made from its table, and what the table names is there."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from research.reference.systems_page import FOLDERS, REGISTERED, SystemsTableError, systems_page

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs" / "systems.tsv"
HEADER = "system\tarea\tstatus\there\tmissing\n"


def test_the_page_is_up_to_date_and_every_reference_in_it_leads_somewhere():
    written = (ROOT / "docs" / "systems.md").read_text(encoding="utf-8")
    assert written == systems_page(TABLE), "run `agentgym dev systems`"


def test_every_system_has_one_line():
    rows = list(csv.DictReader(TABLE.read_text(encoding="utf-8").splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE))
    assert len(rows) == 165


def test_the_files_of_a_line_that_runs_use_what_the_line_names():
    """A recipe, test or document among them mentions each registered name, or the class of that name."""
    for row in csv.DictReader(TABLE.read_text(encoding="utf-8").splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE):
        references = [reference.partition("/")[::2] for reference in row["here"].split()]
        files = [ROOT / FOLDERS[kind] / name for kind, name in references if kind in FOLDERS]
        if row["status"] != "runs":
            continue
        assert files, f"{row['system']} names no recipe, test or document"
        text = "\n".join(file.read_text(encoding="utf-8") for file in files)
        for kind, name in references:
            if kind in REGISTERED:
                short = re.sub(r"-v\d+$", "", name.rpartition("/")[2])
                spellings = (short, short.replace("_", " ").title().replace(" ", ""))
                assert any(spelling in text for spelling in spellings), f"{row['system']}: {name}"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("A\tx\truns\tstage/prefre\t", "A: the reference 'stage/prefre' does not exist"),
        ("A\tx\truns\ttest/none.py\t", "A: the reference 'test/none.py' does not exist"),
        ("A\tx\truns\toption/train.klx\t", "does not exist"),
        ("A\tx\tworks\tstage/prefer\t", "there is no status 'works'. Choose one of runs"),
        ("A\tx\truns\t\t", "name what runs it"),
        ("A\tx\tin part\tstage/prefer\t", "say what is missing"),
        ("A\tx\truns\tstage/prefer\t\nA\tx\truns\tstage/prefer\t", "A has two lines"),
    ],
)
def test_a_line_that_is_wrong_is_named(tmp_path, line, message):
    table = tmp_path / "systems.tsv"
    table.write_text(HEADER + line + "\n", encoding="utf-8")
    with pytest.raises(SystemsTableError, match=message):
        systems_page(table)
