"""Instances in the formats of SWE-bench and similar sets, as one record.

| format | recognised by | content |
|---|---|---|
| SWE-bench, SWE-Gym, SWE-rebench | `base_commit`, `test_patch` | fix, hidden tests, `version` or `install_config` |
| SWE-smith | no `test_patch`, `repo` like `swesmith/owner__name.commit` | a patch that makes the bug, visible tests |
| Multi-SWE-bench | `org`, `base` and `fix_patch` | fix, hidden tests, outcomes by test |
| R2E-Gym | `parsed_commit_content` | files before and after the fix, hidden tests, what they print before and after |
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentgym import TaskError

from .swebench_patches import patch_of, reversed_patch

R2E_TESTS = "r2e_tests"
"""The folder of R2E-Gym's hidden tests in the repository."""
R2E_RESULT = re.compile(rf"^(\w+)\s+({R2E_TESTS}/\S+::\S+)", re.M)
COLOUR = re.compile(r"\x1b\[[\d;]*m")
TEST_FILE = re.compile(r"(?:^|/)(?:tests?/|test_[^/]*$|conftest\.py$|[^/]*_test\.py$)")
SMITH = re.compile(r"(?:swesmith/)?([\w.-]+?)__([\w.-]+)\.([0-9a-f]{7,40})")


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance.

    Attributes:
        id, repo, commit: the instance's name, its repository as owner/name, and its initial commit.
        issue: the text of the issue, which the agent reads.
        fix: the gold patch.
        tests: a patch with hidden tests; empty if the tests are in the repository.
        bug: a patch that makes the bug; empty if the commit has the bug.
        failing, passing: names of tests, as recorded.
        version, python: versions of the repository's package and of the interpreter.
        requirements, files: packages for pip, and requirements files in the repository.
        extras: the extras of the repository's package. This field and those from `version` on are empty if the row does
            not give them.
    """

    id: str
    repo: str
    commit: str
    issue: str
    fix: str
    tests: str
    failing: tuple[str, ...]
    passing: tuple[str, ...]
    bug: str = ""
    version: str = ""
    python: str = ""
    requirements: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    extras: str = field(default="")


def instance_of(row: Mapping[str, Any], where: str) -> Instance:
    """Read a row. Raises: TaskError, beginning with `where`, naming the field and its fault."""
    if "fix_patch" in row and isinstance(row.get("base"), Mapping):
        return _multi_swe(row, where)
    if "parsed_commit_content" in row:
        return _r2e(row, where)
    if not row.get("test_patch") and (match := SMITH.match(str(row.get("repo", "")))):
        return _smith(row, match, where)
    texts = ("instance_id", "repo", "base_commit", "problem_statement", "patch", "test_patch")
    name, repo, commit, issue, fix, tests = (_text(row, key, where) for key in texts)
    config = row.get("install_config")
    config = config if isinstance(config, Mapping) else {}
    packages = str(config.get("packages") or "")
    is_file = packages.endswith((".txt", ".yml", ".yaml"))
    given = [*([] if is_file else packages.split()), *(config.get("pip_packages") or ())]
    return Instance(
        name,
        repo,
        commit,
        issue,
        fix,
        tests,
        failing=_tests(row.get("FAIL_TO_PASS"), "FAIL_TO_PASS", where),
        passing=_tests(row.get("PASS_TO_PASS", []), "PASS_TO_PASS", where),
        version=str(row.get("version") or ""),
        python=str(config.get("python") or ""),
        requirements=tuple(str(item).replace(" ", "") for item in given),
        files=tuple(config.get("reqs_path") or ()),
        extras=str(config.get("install") or "").partition(".[")[2].partition("]")[0],
    )


def _smith(row: Mapping[str, Any], match: re.Match[str], where: str) -> Instance:
    bug = _text(row, "patch", where)
    try:
        fix = reversed_patch(bug)
    except ValueError as error:
        raise TaskError(f"{where}: the field 'patch' is not a unified diff: {error}.") from error
    return Instance(
        _text(row, "instance_id", where),
        f"{match[1]}/{match[2]}",
        str(row.get("base_commit") or match[3]),
        str(row.get("problem_statement") or ""),
        fix,
        "",
        failing=_tests(row.get("FAIL_TO_PASS"), "FAIL_TO_PASS", where),
        passing=_tests(row.get("PASS_TO_PASS", []), "PASS_TO_PASS", where),
        bug=bug,
    )


def _multi_swe(row: Mapping[str, Any], where: str) -> Instance:
    org, name, fix, tests = (_text(row, key, where) for key in ("org", "repo", "fix_patch", "test_patch"))
    issues = [issue for issue in row.get("resolved_issues") or () if isinstance(issue, Mapping)] or [row]
    texts = [f"{issue.get('title') or ''}\n\n{issue.get('body') or ''}".strip() for issue in issues]
    groups = [row.get(key) or {} for key in ("f2p_tests", "n2p_tests", "s2p_tests")]
    return Instance(
        str(row.get("instance_id") or f"{org}__{name}-{row.get('number')}"),
        f"{org}/{name}",
        str(row["base"].get("sha") or row["base"].get("ref") or ""),
        "\n\n".join(filter(None, texts)),
        fix,
        tests,
        failing=_tests([test for group in groups for test in group], "f2p_tests", where),
        passing=_tests(list(row.get("p2p_tests") or ()), "p2p_tests", where),
    )


def _r2e(row: Mapping[str, Any], where: str) -> Instance:
    """Return an instance of R2E-Gym. Which tests the fix repairs is in what they printed before and after it."""
    repo, commit, issue = (_text(row, key, where) for key in ("repo_name", "commit_hash", "problem_statement"))
    try:
        changes, runs = (json.loads(row[key]) for key in ("parsed_commit_content", "execution_result_content"))
        tests = dict(zip(runs["test_file_names"], runs["test_file_codes"], strict=True))
        fix = ""
        for file in changes["file_diffs"]:
            path, kind = file["header"]["file"]["path"], file["header"].get("misc_line") or ""
            before = None if kind.startswith("new file") else file["old_file_content"]
            after = None if kind.startswith("deleted file") else file["new_file_content"]
            fix += "" if TEST_FILE.search(path) or before == after else patch_of(path, before, after)
        old, new = (_passed(runs[f"{when}_commit_res_stdout"]) for when in ("old", "new"))
        base = changes["old_commit_hash"]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TaskError(f"{where}: this is not a row of R2E-Gym: {error!r:.200}.") from error
    return Instance(
        f"{repo}-{commit}",
        repo,
        base,
        issue.replace("[ISSUE]", "").replace("[/ISSUE]", "").strip(),
        fix,
        "".join(patch_of(f"{R2E_TESTS}/{name}", None, code) for name, code in tests.items()),
        failing=tuple(name for name in new if name not in old),
        passing=tuple(name for name in new if name in old),
    )


def _passed(output: str) -> list[str]:
    """Return the ids of the tests that pytest's summary calls passed, up to their first blank."""
    return [name for status, name in R2E_RESULT.findall(COLOUR.sub("", output)) if status == "PASSED"]


def _text(row: Mapping[str, Any], key: str, where: str) -> str:
    value = row.get(key)
    if not isinstance(value, str):
        raise TaskError(
            f"{where}: the field {key!r} is not text. Give a row of SWE-bench, SWE-Gym, SWE-smith, R2E-Gym or "
            "Multi-SWE-bench."
        )
    return value


def _tests(value: Any, key: str, where: str) -> tuple[str, ...]:
    """Return the tests in a field, which is a list or a list as JSON text."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise TaskError(f"{where}: {value[:60]!r} is not a list of tests.") from error
    if not isinstance(value, Iterable) or not all(isinstance(test, str) for test in value):
        raise TaskError(f"{where}: {value!r:.60} in {key} is not a list of tests.")
    return tuple(value)
