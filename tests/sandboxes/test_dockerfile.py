"""Dockerfiles are read as Docker's builder reads them, and what cannot be done is named with its line."""

from __future__ import annotations

import contextlib
import io
import stat
import subprocess
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.errors import TaskError
from agentgym.sandboxes.code.terminal.build_context import copied_files, unpacked, without_ignored
from agentgym.sandboxes.code.terminal.build_steps import Copy, Download, ImageConfig, MakeFolder, Run
from agentgym.sandboxes.code.terminal.dockerfile import SCRIPT, Dockerfile, parse_dockerfile
from agentgym.sandboxes.code.terminal.dockerfile_lines import split_instructions
from agentgym.sandboxes.code.terminal.shell_words import expanded

BASE = ImageConfig(environment=(("PATH", "/bin"), ("HOME", "/root")), workdir="/srv", user="base", cmd=("sh",))


def steps_of(text: str, base: ImageConfig = BASE, **arguments: str):
    """Return the last stage's steps and what its image says."""
    return parse_dockerfile(text, arguments=arguments).target.steps(base)


def commands_of(text: str, **arguments: str) -> list[tuple[str, ...]]:
    return [step.argv for step in steps_of(text, **arguments)[0] if isinstance(step, Run)]


def test_variables_folder_user_and_shell_hold_for_what_follows_them():
    steps, config = steps_of(
        """
        ARG VERSION=3
        FROM base:${VERSION}
        ARG VERSION
        ARG WHO="you and me"
        ENV PATH=$HOME/bin:$PATH GREETING="Hello, ${WHO}" PLAIN='$HOME'
        ENV OLD form  of it
        WORKDIR app
        RUN echo $VERSION
        WORKDIR ${HOME}/work
        USER ${NOBODY:-worker}:staff
        SHELL ["/bin/bash", "-o", "pipefail", "-c"]
        RUN make | \\
            # a comment in between

            tee log
        RUN ["make", "$HOME"]
        ENTRYPOINT ["serve"]
        CMD serve --all
        """
    )
    first, folder, second, third = steps[1:]
    variables = dict(first.environment)
    assert variables["PATH"] == "/root/bin:/bin"
    assert (variables["VERSION"], variables["GREETING"]) == ("3", "Hello, you and me")
    assert (variables["PLAIN"], variables["OLD"]) == ("$HOME", "form  of it")
    assert (first.cwd, first.user, first.argv) == ("/srv/app", "base", ("/bin/sh", "-c", "echo $VERSION"))
    assert (steps[0].path, folder.path, second.cwd) == ("/srv/app", "/root/work", "/root/work")
    assert second.user == "worker:staff"
    assert second.argv[:4] == ("/bin/bash", "-o", "pipefail", "-c")
    assert second.argv[4].split() == ["make", "|", "tee", "log"]
    assert (third.argv, third.line) == (("make", "$HOME"), 17)
    assert "VERSION" not in dict(config.environment)
    assert (config.entrypoint, config.cmd[-1], config.workdir) == (("serve",), "serve --all", "/root/work")


def test_stages_need_what_they_build_on_and_copy_from():
    dockerfile = parse_dockerfile(
        """FROM --platform=$TARGETPLATFORM golang:1 AS Build
        RUN go build
        FROM scratch
        FROM build AS checked
        FROM node:20 AS unused
        FROM debian
        COPY --from=BUILD /go/a /a
        COPY --from=1 / /all
        COPY --from=alpine:3 /etc/os-release /os
        COPY --from=checked /c /d
        """
    )
    assert [stage.name for stage in dockerfile.stages] == ["build", "1", "checked", "unused", "4"]
    assert [stage.name for stage in dockerfile.needed()] == ["build", "1", "checked", "4"]
    assert dockerfile.target.needs == ("build", "1", "alpine:3", "checked")
    assert (dockerfile.stages[2].base, dockerfile.stages[2].from_stage) == ("build", True)
    copies, _ = dockerfile.target.steps(ImageConfig())
    assert [copy.from_stage for copy in copies] == ["build", "1", "alpine:3", "checked"]


def test_arguments_above_from_hold_below_it_only_where_they_are_asked_for():
    text = "ARG A=1\nARG B=${A}2\nFROM base:$B\nRUN echo\nARG A\nARG C=${A:-none}\nRUN echo\n"
    text += "ENV A=e\nARG A=later\nRUN echo"
    runs = [dict(step.environment) for step in steps_of(text, ImageConfig())[0]]
    assert parse_dockerfile(text).target.base == "base:12"
    assert runs == [{}, {"A": "1", "C": "1"}, {"A": "later", "C": "1"}]
    assert parse_dockerfile(text, arguments={"A": "7"}).target.base == "base:72"
    assert dict(steps_of(text, ImageConfig(), C="given")[0][1].environment)["C"] == "given"


def test_heredocs_are_scripts_inputs_and_files():
    steps, _ = steps_of(
        "FROM a\nENV NAME=me\n"
        "RUN <<EOF\necho $NAME\n# no comment\nEOF\n"
        "RUN <<-'END'\n\t#!/usr/bin/env python3\n\tprint(1)\n\tEND\n"
        "RUN python3 - <<A && cat << B\nx\nA\ny\nB\n"
        "RUN bash -c 'cat <<C'\n"
        'COPY <<one.txt <<"two" /files/\n$NAME \\$NAME it\'s\none.txt\n$NAME\ntwo\n'
    )
    argv = [step.argv[2:] for step in steps if isinstance(step, Run)]
    assert argv[0] == ("echo $NAME\n# no comment\n",)
    assert (argv[1], steps[1].stdin) == ((SCRIPT, "/tmp/.heredoc-7"), b"#!/usr/bin/env python3\nprint(1)\n")
    assert argv[2] == ("python3 - <<A && cat << B\nx\nA\ny\nB",)
    assert argv[3] == ("bash -c 'cat <<C'",)
    assert steps[4].documents == (("one.txt", b"me $NAME it's\n"), ("two", b"$NAME\n"))


def test_the_escape_character_can_be_another_one():
    text = "# escape=`\nFROM a\nRUN one `\n  two\\\nRUN three"
    assert [words[-1] for words in commands_of(text)] == ["one   two\\", "three"]
    assert [words[-1] for words in commands_of("# a comment\n# escape=`\nFROM a\nRUN one \\\n two")] == ["one  two"]


def test_mounts_for_caches_are_folders_and_secrets_are_left_out():
    steps, _ = steps_of(
        "FROM a\nRUN --mount=type=cache,target=/root/.cache --mount=type=secret,id=key --network=none pip install x"
    )
    assert isinstance(steps[0], MakeFolder)
    assert (steps[0].path, steps[1].network) == ("/root/.cache", False)


def test_what_a_mount_binds_is_copied_for_one_command():
    dockerfile = parse_dockerfile(
        "FROM a AS tools\nFROM b\nWORKDIR /w\n"
        "RUN --mount=type=bind,source=uv.lock,target=uv.lock --mount=from=tools,source=/bin/uv,dst=/bin/uv uv sync"
    )
    assert [stage.name for stage in dockerfile.needed()] == ["tools", "1"]
    _, *steps = dockerfile.target.steps(ImageConfig())[0]
    copies = [(step.sources, step.target, step.from_stage) for step in steps if isinstance(step, Copy)]
    assert copies == [(("uv.lock",), "/w/uv.lock", ""), (("/bin/uv",), "/bin/uv", "tools")]
    assert [type(step) for step in steps] == [Run, Copy, Run, Copy, Run, Run, Run]
    assert [step.argv[-1] for step in steps if isinstance(step, Run)] == [
        *("/w/uv.lock", "/bin/uv", "uv sync", "/w/uv.lock", "/bin/uv")
    ]


def test_what_was_at_the_target_of_a_mount_is_there_after_it(tmp_path):
    [before, copy, run, after] = steps_of("FROM a\nRUN --mount=target=/x ls")[0]
    assert (copy.sources, run.argv[-1]) == (("/",), "ls")
    for number, initial in enumerate((None, "old")):
        target = tmp_path / str(number)
        if initial is not None:
            target.write_text(initial)
        subprocess.run([*before.argv[:3], str(target)], check=True)
        assert not target.exists()
        target.write_text("bound")
        subprocess.run([*after.argv[:3], str(target)], check=True)
        assert (target.read_text() if target.exists() else None) == initial


def test_add_downloads_and_unpacks():
    steps, _ = steps_of(
        "FROM a\nADD --checksum=sha256:ab http://b.c/d/e.txt?f=1 /g/\nADD http://b.c/d /h\n"
        "ADD --chmod=755 x.tar http://b.c/e /t/"
    )
    assert [(step.name, step.target, step.into_folder) for step in steps if isinstance(step, Download)] == [
        ("e.txt", "/g", True),
        ("d", "/h", False),
        ("e", "/t", True),
    ]
    assert [(step.mode, step.checksum) for step in steps if isinstance(step, Download)][::2] == [
        (0o600, "sha256:ab"),
        (0o755, ""),
    ]
    assert [(step.sources, step.unpacks) for step in steps if isinstance(step, Copy)] == [(("x.tar",), True)]


REFUSED = {
    "line 2, 'RUN true': only ARG may stand above": "# x\nRUN true",
    "must begin with": "ARG A=1\n",
    "has no instructions": "# nothing\n\n",
    "'FROM a AS': it must be FROM image": "FROM a AS",
    "its image is empty; give the ARG in it a default": "ARG A\nFROM $A",
    "there is a stage 'b' already": "FROM a AS b\nFROM c AS b",
    "the platform 'windows/amd64'": "FROM --platform=windows/amd64 a",
    "line 2, 'INSTALL x': there is no such instruction": "FROM a\nINSTALL x",
    "ONBUILD is for images that others build on": "FROM a\nONBUILD RUN true",
    "--form is not known; --chmod,": "FROM a\nCOPY --form=b c d",
    "--chmod=u[+]x must be three or four digits": "FROM a\nCOPY --chmod=u+x c d",
    "there is no stage 3 above it": "FROM a\nCOPY --from=3 c d",
    "must name the files and, as its last word": "FROM a\nCOPY c",
    "its heredoc does not end; add a line EOF": "FROM a\nRUN <<EOF\ntrue",
    "has an unknown type; bind, cache": "FROM a\nRUN --mount=type=disk,target=/x true",
    "--mount=type=bind lacks target=": "FROM a\nRUN --mount=type=bind true",
    "a build has no secret; remove required": "FROM a\nRUN --mount=type=secret,id=x,required=true true",
    "--network=host is not allowed": "FROM a\nRUN --network=host true",
    "is a git repository; use RUN git clone": "FROM a\nADD git@b.c:d.git /e",
    "it must be a list such as SHELL": "FROM a\nSHELL bash -c",
    "its list must have texts only": 'FROM a\nRUN ["a", 3]',
    "lacks a closing '": "FROM a\nENV A='b",
    "X is not set: set it": 'FROM a\nENV A="${X:?set it}"',
    "'c' lacks a =": "FROM a\nENV A=b c",
    "the escape character must be": "# escape=x\nFROM a",
    "its arguments are missing": "FROM a\nRUN",
}


@pytest.mark.parametrize("says", REFUSED)
def test_what_cannot_be_done_is_named_with_its_remedy(says):
    with pytest.raises(TaskError, match=says):
        parse_dockerfile(REFUSED[says])


CONTEXT = {
    "a.txt": (b"a", 0o644),
    "b.txt": (b"b", 0o755),
    "d": (b"", stat.S_IFDIR | 0o755),
    "d/c.txt": (b"c", 0o644),
    "d/e/f.py": (b"f", 0o644),
    "d/link": (b"../a.txt", stat.S_IFLNK | 0o777),
    "empty": (b"", stat.S_IFDIR | 0o755),
    "to-d": (b"d", stat.S_IFLNK | 0o777),
}
COPIES = {
    "a.txt /x": ["/x"],
    "a.txt /x/": ["/x/a.txt"],
    "*.txt /x": ["/x/a.txt", "/x/b.txt"],
    "*.none /x": [],
    "[!b].txt ?.txt /x/": ["/x/a.txt", "/x/b.txt"],
    "d /x": ["/x", "/x/c.txt", "/x/e", "/x/e/f.py", "/x/link"],
    "/d/e ../../empty /x": ["/x", "/x/f.py"],
    "to-d/e /x": ["/x", "/x/f.py"],
    "d/link /x": ["/x"],
    "d/link to-d /x/": ["/x", "/x/c.txt", "/x/e", "/x/e/f.py", "/x/link"],
    "d/l*k d/e* /x/": ["/x", "/x/f.py", "/x/link"],
    "--parents d/e/f.py /x/": ["/x/d/e/f.py"],
    "--parents d/./**/*.py /x/": ["/x/e/f.py"],
    "--exclude=**/*.py --exclude=link d /x": ["/x", "/x/c.txt", "/x/e"],
    "--exclude=*.txt a.txt d/e /x/": ["/x", "/x/f.py"],
}


@pytest.mark.parametrize("words", COPIES)
def test_copies_go_where_docker_puts_them(words):
    [copy], _ = steps_of(f"FROM a\nCOPY {words}")
    created = copied_files(copy, CONTEXT, into_folder=copy.into_folder)
    assert sorted(created) == COPIES[words]


def test_what_is_copied_keeps_its_kind_and_gets_its_mode():
    [copy], _ = steps_of("FROM a\nCOPY --chmod=0700 --chown=1:2 d /x")
    created = copied_files(copy, CONTEXT, into_folder=False)
    assert created["/x/link"] == (b"../a.txt", stat.S_IFLNK | 0o700)
    assert (created["/x/c.txt"], copy.owner) == ((b"c", 0o700), "1:2")
    [copy], _ = steps_of("FROM a\nCOPY d/l*k /x")
    assert copied_files(copy, CONTEXT, into_folder=False) == {"/x": (b"a", 0o644)}


def test_a_missing_source_is_named_with_its_line():
    [copy], _ = steps_of("FROM a\n\nCOPY gone /x")
    with pytest.raises(TaskError, match=r"line 3, copies 'gone', which is not there"):
        copied_files(copy, CONTEXT, into_folder=False)


def test_what_dockerignore_names_is_left_out():
    rules = b"# comment\n*\n!d\nd/e/**\n!**/f.py\n"
    remaining = without_ignored({**CONTEXT, ".dockerignore": (rules, 0o644)})
    assert sorted(remaining) == ["d", "d/c.txt", "d/e/f.py", "d/link"]


def packed(*members: tuple[str, bytes, str], mode: str = "w:gz") -> bytes:
    """Return an archive of members: name, kind (of tarfile) and content or link."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for name, kind, content in members:
            info = tarfile.TarInfo(name)
            info.type = kind
            if kind == tarfile.REGTYPE:
                info.size = len(content)
            info.linkname = content if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ""
            archive.addfile(info, io.BytesIO(content.encode()))
    return buffer.getvalue()


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_archives_are_unpacked_without_devices(mode):
    data = packed(
        ("./f", tarfile.REGTYPE, "text"),
        ("s", tarfile.SYMTYPE, "/etc/passwd"),
        ("h", tarfile.LNKTYPE, "f"),
        ("null", tarfile.CHRTYPE, ""),
        mode=mode,
    )
    [add], _ = steps_of("FROM a\nADD x /to")
    created = copied_files(add, {"x": (data, 0o644)}, into_folder=False)
    assert {path: content for path, (content, _) in created.items()} == {
        "/to/f": b"text",
        "/to/s": b"/etc/passwd",
        "/to/h": b"text",
    }
    assert unpacked(b"not an archive") is None


@pytest.mark.parametrize(
    ("member", "says"),
    [
        (("../x", tarfile.REGTYPE, "x"), "leads out of it"),
        (("h", tarfile.LNKTYPE, "/etc/passwd"), "hard link 'h' to what it does not hold"),
        (("big", tarfile.REGTYPE, "0" * (66 * 2**20)), "more than 67108864 bytes"),
    ],
)
def test_hostile_archives_are_refused(member, says):
    with pytest.raises(TaskError, match=says):
        unpacked(packed(member))


PIECES = """FROM a|FROM a AS b|RUN|COPY --from=b x y|ADD|ENV A=$B|ARG|${A:-|}|<<EOF|EOF|[|"|'|\\|\n| |#|# escape=`|
SHELL|--mount=type=cache,target=/x|WORKDIR|${A%%*}|*|`|$"""
WORDS = st.sampled_from(PIECES.split("|"))


@given(st.one_of(st.text(), st.lists(WORDS, max_size=30).map("".join), st.lists(WORDS, max_size=30).map(" ".join)))
def test_any_text_is_read_or_refused(text):
    for written in (text, f"FROM a\nRUN {text}", f"FROM a\nCOPY {text}\nENV {text}"):
        try:
            dockerfile = parse_dockerfile(written)
        except TaskError:
            continue
        assert isinstance(dockerfile, Dockerfile)


@given(
    st.lists(
        st.tuples(st.sampled_from(["RUN", "ENV A=b", "WORKDIR"]), st.from_regex(r"[a-z/.\-=]{1,9}", fullmatch=True))
    )
)
def test_a_dockerfile_that_is_written_again_is_the_same(parts):
    text = "\n".join(["FROM a", *(f"{name} {word}" for name, word in parts)])
    try:
        instructions, _ = split_instructions(text)
    except TaskError:
        return
    rewritten = "\n\n# comment\n".join(
        " \\\n ".join([instruction.name, *(f"--{n}={v}" for n, v in instruction.flags), instruction.arguments])
        for instruction in instructions
    )
    written, _ = split_instructions(rewritten)
    assert [(i.name, i.flags, i.arguments) for i in written] == [(i.name, i.flags, i.arguments) for i in instructions]


@given(st.text(alphabet="ab$\\'\"{}:-+?#%/* ", max_size=40))
def test_any_word_is_expanded_or_refused(text):
    with contextlib.suppress(ValueError):
        assert isinstance(expanded(text, {"a": "aab", "b": ""}), str)
