"""Three small task folders, two as Harbor has them and one as Terminal-Bench did, and how they get onto disk."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from text_files import write_files

from agentgym.sandbox.rootfs.python_image import write_python_image
from agentgym.sandboxes.code.terminal.folder import TerminalFolder

FOLDERS = {
    "counted/environment/Dockerfile": """\
FROM python:3.11-slim
WORKDIR /data
COPY data/ .
RUN ["mkdir", "-p", "empty"]
""",
    "counted/environment/data/count.py": """\
import sys

print(len(sys.stdin.read()))
""",
    "counted/instruction.md": """\
The program /data/count.py counts words wrongly. Mend it.
""",
    "counted/solution/solve.sh": """\
#!/bin/bash
sed -i 's/read())/read().split())/' /data/count.py
""",
    "counted/task.toml": """\
version = "1.0"

[verifier]
timeout_sec = 60
env = { EXPECTED = "7" }

[environment]
memory = "512M"
""",
    "counted/tests/run.py": """\
\"\"\"Calls every test of test_count.py, as pytest would, and ends with 0 if all pass, 2 if not.\"\"\"

import sys

import test_count

failed = 0
for name, test in sorted(vars(test_count).items()):
    if name.startswith("test_"):
        try:
            test()
        except (AssertionError, OSError) as error:
            print(name, repr(error))
            failed = 2
sys.exit(failed)
""",
    "counted/tests/test.sh": """\
#!/bin/bash
cd /tests && python3 run.py && echo '{"reward": 1.0}' > /logs/verifier/reward.json
""",
    "counted/tests/test_count.py": """\
import os
import subprocess


def count(text):
    command = ["python3", "/data/count.py"]
    return subprocess.run(command, input=text, capture_output=True, text=True).stdout.strip()


def test_words():
    assert count("to be or not to be now") == os.environ["EXPECTED"]


def test_nothing():
    assert count("") == "0"
""",
    "greeting/environment/Dockerfile": """\
FROM python:3.11-slim
ENV NAME_FILE=/app/name.txt GREETING="Hello, you"
WORKDIR /app
ENV BIN=/app/bin
ENV PATH=${BIN}:$PATH
COPY --chmod=755 greet /usr/local/bin/greet
RUN mkdir bin && printf '#!/bin/sh\\necho hello\\n' > bin/hello && chmod +x bin/hello && hello
RUN greet > "$NAME_FILE" && \\
    # a comment in between
    test -s name.txt
CMD ["bash"]
""",
    "greeting/environment/greet": """\
#!/bin/sh
echo "Ada"
""",
    "greeting/instruction.md": """\
Write the line "Hello, NAME!" to /app/hello.txt, where NAME is what /app/name.txt holds.
""",
    "greeting/solution/solve.sh": """\
#!/bin/bash
echo "Hello, $(cat "$NAME_FILE")!" > hello.txt
""",
    "greeting/task.toml": """\
version = "1.0"

[metadata]
difficulty = "easy"
tags = ["files"]

[agent]
timeout_sec = 60.0

[verifier]
timeout_sec = 60.0

[environment]
memory_mb = 512
storage_mb = 64
""",
    "greeting/tests/test.sh": """\
#!/bin/bash
reward=0
if [ "$(cat /app/hello.txt)" = "Hello, Ada!" ]; then reward=1; fi
echo $reward > /logs/verifier/reward.txt
""",
    "old-style/Dockerfile": """\
FROM debian:12
WORKDIR /app
RUN mkdir -p /app/old && touch /app/old/file
""",
    "old-style/run-tests.sh": """\
#!/bin/bash
set -e
[ "$(/app/say)" = yes ]
[ "$(ls /app)" = say ]
[ -f "$TEST_DIR/marker" ]
""",
    "old-style/solution.sh": """\
#!/bin/bash
rm -r old
printf "#!/bin/sh\\necho yes\\n" > say
chmod +x say
""",
    "old-style/task.yaml": """\
instruction: |-
  Make an executable file /app/say that prints "yes".

  Nothing else may be in /app.
author_name: nobody
difficulty: easy
category: 'files'
tags:
  - files
parser_name: pytest
max_agent_timeout_sec: 60
max_test_timeout_sec: 60.0
""",
    "old-style/tests/marker": "",
}


def write_folders(target: Path, *names: str) -> Path:
    """Write the folders of these names, or all. Returns: where they lie."""
    return write_files(
        target, {path: text for path, text in FOLDERS.items() if not names or path.partition("/")[0] in names}
    )


@contextmanager
def cache_with_python(folder: Path, programs: str) -> Iterator[None]:
    """Make a folder agentgym's cache for a while, with the image python:3.11-slim: this Python and some programs."""
    (folder / "images").mkdir(parents=True)
    write_python_image(folder / "images/python-3.11-slim", sys.executable, programs=programs, data=())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENTGYM_CACHE", str(folder))
        yield


def folder_with_dockerfile(
    target: Path, dockerfile: str, files: Mapping[str, bytes] | None = None, *, settings: str = ""
) -> TerminalFolder:
    """Write the folder `greeting` with another Dockerfile, files beside it, and perhaps another task.toml."""
    folder = write_folders(target, "greeting") / "greeting"
    shutil.rmtree(folder / "environment")
    for name, data in {"Dockerfile": textwrap.dedent(dockerfile).encode(), **(files or {})}.items():
        (folder / "environment" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "environment" / name).write_bytes(data)
    if settings:
        (folder / "task.toml").write_text(settings)
    return TerminalFolder.read(folder)
