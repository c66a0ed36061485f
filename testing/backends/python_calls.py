"""Contract: Python calls and sessions."""

from __future__ import annotations

import os

from .check import check_equal, checks_of
from .testbed import Target


async def python_calls_share_nothing_but_files(target: Target) -> None:
    """Variables and changed modules are lost after a call; files stay."""
    await target.sandbox.run_python("import builtins; builtins.word = 1; open('kept', 'w').write('file')")
    result = await target.sandbox.run_python(
        "import builtins; print(hasattr(builtins, 'word'), 'word' in globals(), open('kept').read())"
    )
    check_equal(result.stdout, b"False False file\n", "variables go, files stay")


async def an_exception_is_exit_code_1_with_its_traceback(target: Target) -> None:
    """Earlier output is kept, and the traceback is on standard error."""
    result = await target.sandbox.run_python("print('a'); 1/0")
    check_equal((result.exit_code, result.stdout, result.ok), (1, b"a\n", False), "an exception")
    check_equal(b"ZeroDivisionError" in result.stderr, True, "the traceback")
    check_equal((await target.sandbox.run_python("def (")).exit_code, 1, "a syntax error")


async def python_may_end_itself(target: Target) -> None:
    """sys.exit and os._exit set the exit code; threads and exit handlers run to their end."""
    check_equal((await target.sandbox.run_python("import sys; sys.exit(7)")).exit_code, 7, "sys.exit")
    check_equal((await target.sandbox.run_python("import os; os._exit(9)")).exit_code, 9, "os._exit")
    code = """
import atexit, threading, time
atexit.register(lambda: print("bye"))
threading.Thread(target=lambda: (time.sleep(0.05), print("thread"))).start()
"""
    check_equal((await target.sandbox.run_python(code)).stdout, b"thread\nbye\n", "a program's end")


async def odd_code_is_a_result(target: Target) -> None:
    """Null characters, lone surrogates and thousands of brackets are errors of the code, not of the sandbox."""
    for code in ("print('\ud800')", "\0", "[" * 3000, "x = '" + "[" * 3000):
        check_equal((await target.sandbox.run_python(code)).exit_code, 1, f"exit code of {code!r:.20}")
    check_equal((await target.sandbox.run_python("")).exit_code, 0, "exit code of no code at all")


async def long_code_runs(target: Target) -> None:
    """Two megabytes of code run, alone and in a session."""
    long = f"x = '{'y' * 2_400_000}'\nprint(len(x))"
    for session in (None, "a"):
        check_equal((await target.sandbox.run_python(long, session=session)).stdout, b"2400000\n", "long code")


async def nothing_of_the_hosts_environment_is_inherited(target: Target) -> None:
    """A variable of the host is not in the environment of code or commands."""
    os.environ["AGENTGYM_CHECK_INHERITED"] = "x"
    try:
        async with target.another() as sandbox:
            result = await sandbox.run_python("import os; print('AGENTGYM_CHECK_INHERITED' in os.environ)")
            check_equal(result.stdout, b"False\n", "in Python")
            result = await sandbox.exec(["sh", "-c", "echo $AGENTGYM_CHECK_INHERITED$SSH_AUTH_SOCK"])
            check_equal(result.stdout, b"\n", "in a command")
    finally:
        del os.environ["AGENTGYM_CHECK_INHERITED"]


async def sets_have_the_same_order_in_every_sandbox(target: Target) -> None:
    """The hash seed is fixed, so that a replayed episode behaves like the first; random numbers are not fixed."""
    code = "print(list({'alpha', 'beta', 'gamma', 'delta', 'epsilon'}))"
    async with target.another() as other:
        orders = {(await each.run_python(code)).stdout for each in (target.sandbox, other)}
        orders.add((await other.exec(["python3", "-c", code])).stdout)
    check_equal(len(orders), 1, "orders of one set")
    code = "import random, uuid; print(random.random(), uuid.uuid4())"
    numbers = {(await target.sandbox.run_python(code)).stdout for _ in range(2)}
    check_equal(len(numbers), 2, "random numbers of two calls that differ")


async def a_session_keeps_its_variables(target: Target) -> None:
    """A session's definitions exist in its next call, also after an exception."""
    await target.sandbox.run_python("x = 20", session="a")
    check_equal((await target.sandbox.run_python("print(x + 1)", session="a")).stdout, b"21\n", "a variable")
    await target.sandbox.run_python("1/0", session="a")
    check_equal(
        (await target.sandbox.run_python("print(x)", session="a")).stdout, b"20\n", "a variable after an exception"
    )


async def sessions_are_separate(target: Target) -> None:
    """A session sees no variables of another session, and a plain call sees those of neither."""
    await target.sandbox.run_python("x = 20", session="a")
    check_equal((await target.sandbox.run_python("print(x)", session="b")).exit_code, 1, "another session")
    check_equal((await target.sandbox.run_python("print(x)")).exit_code, 1, "a plain call")


async def a_session_that_times_out_starts_anew_and_spares_others(target: Target) -> None:
    """The timeout of one session ends it, not the sandbox and not the session beside it."""
    await target.sandbox.run_python("x = 20", session="a")
    await target.sandbox.run_python("y = 1", session="b")
    result = await target.sandbox.run_python("while True: pass", session="b", timeout_s=0.3)
    check_equal(result.timed_out, True, "a session call times out")
    check_equal(
        (await target.sandbox.run_python("print('y' in globals())", session="b")).stdout, b"False\n", "it is new"
    )
    check_equal((await target.sandbox.run_python("print(x)", session="a")).stdout, b"20\n", "the other session")


async def a_session_may_end_itself_and_starts_again(target: Target) -> None:
    """os._exit in a session sets the exit code; the next call gets a fresh session."""
    check_equal((await target.sandbox.run_python("import os; os._exit(3)", session="a")).exit_code, 3, "its exit code")
    check_equal((await target.sandbox.run_python("print(1)", session="a")).stdout, b"1\n", "the call after it")


async def a_session_keeps_its_processes_and_other_calls_spare_them(target: Target) -> None:
    """Processes that a session started live until the session ends."""
    await target.sandbox.run_python("import subprocess; p = subprocess.Popen(['sleep', '50'])", session="a")
    await target.sandbox.run_python("pass")
    await target.sandbox.exec(["true"])
    check_equal((await target.sandbox.run_python("print(p.poll())", session="a")).stdout, b"None\n", "its process")
    await target.sandbox.run_python("import os; os._exit(0)", session="a")
    await target.idle("after their session ended")


CHECKS = checks_of(
    "contract",
    "Python",
    python_calls_share_nothing_but_files,
    an_exception_is_exit_code_1_with_its_traceback,
    python_may_end_itself,
    odd_code_is_a_result,
    long_code_runs,
    nothing_of_the_hosts_environment_is_inherited,
    sets_have_the_same_order_in_every_sandbox,
    a_session_keeps_its_variables,
    sessions_are_separate,
    a_session_that_times_out_starts_anew_and_spares_others,
    a_session_may_end_itself_and_starts_again,
    a_session_keeps_its_processes_and_other_calls_spare_them,
)
