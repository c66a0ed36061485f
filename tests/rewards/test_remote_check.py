"""A test program that runs apart from the submission: what keeps it from a verdict is whose fault?"""

from __future__ import annotations

import pytest

from agentgym import JudgeError
from agentgym.rewards.remote_check import RemoteCheck

CHECK = "for n in range(3): assert candidate(n) == n * n"
HOSTILE = {
    "a huge number": "def candidate(n): return 1 << 40_000_000",
    "a huge text": "def candidate(n): return 'x' * 2**23",
    "deep": "def candidate(n):\n    x = []\n    for _ in range(10**5): x = [x]\n    return x",
    "asleep": "import time\ndef candidate(n): time.sleep(100)",
    "ended": "import os\ndef candidate(n): os._exit(0)",
    "forged": "import os\nos.write(4, b'{\"passed\": true}\\n' * 9)\ndef candidate(n): return 5",
    "wrong": "def candidate(n): return n",
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_submission_that_keeps_the_check_from_its_end_has_failed(name):
    assert not await RemoteCheck(timeout_s=1.0).judge(HOSTILE[name], CHECK, "candidate")


async def test_an_endless_answer_to_a_check_that_waits_for_it_has_failed():
    check = "while candidate(1) != 1: pass"
    assert await RemoteCheck(timeout_s=1.0).judge("def candidate(n): return n", check, "candidate")
    assert not await RemoteCheck(timeout_s=1.0).judge("def candidate(n): return 2", check, "candidate")
    stuck = "if candidate(1) == 2:\n    while True: pass"
    assert not await RemoteCheck(timeout_s=1.0).judge("def candidate(n): return 2", stuck, "candidate")


async def test_a_check_without_an_end_of_its_own_is_not_the_submissions_fault():
    with pytest.raises(JudgeError, match="The judge failed on a harmless control submission too"):
        await RemoteCheck(timeout_s=1.0).judge("def candidate(n): return n", "while True: pass", "candidate")
