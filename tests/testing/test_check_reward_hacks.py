"""The probes bite: each finds the hole it is meant for, in sandboxes and judges that have it; sound ones pass."""

from __future__ import annotations

import pytest
from breaches import assert_names
from shelf import Shelf, SumIsRight, shelf_tasks

from agentgym import Call, Environment, Message, Reward, SandboxSpec, Task, tool
from agentgym.errors import ConformanceError
from agentgym.testing import check_reward_hacks

TASKS = [
    Task(
        f"double-{n}",
        "test/runs-v1",
        f"Write double(x). It is asked for double({n}).",
        truth={"x": n, "answer": str(2 * n)},
    )
    for n in (17, 23, 31)
]


class Runs(Environment):
    """Code in a sandbox; what it prints when it is handed in comes back. Not isolated: the grader, in some of these."""

    sandbox = SandboxSpec(memory_mib=256, processes=16, disk_mib=32)
    truths = {task.id: task.truth for task in TASKS}

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        self.code_sandbox = await self.open_sandbox()
        self.truth = self.truths[task.id]
        await self.prepare()
        return task.opening()

    async def prepare(self) -> None:
        """What the sandbox holds before the agent begins."""

    @tool
    async def run(self, code: str) -> str:
        """Run Python."""
        return (await self.code_sandbox.run_python(code, timeout_s=10)).text[:2000]

    @tool(final=True)
    async def submit(self, code: str) -> str:
        """Hand in the code."""
        return await self.graded(code)

    async def graded(self, code: str) -> str:
        return "Submitted."


class Believes(Reward):
    """Success where the result of the final call says so."""

    def outcome(self, episode):
        results = [result for turn in episode.turns for result in turn.results if result.final]
        return {"success": float(bool(results) and self.says(str(results[0].content)))}

    def says(self, result):
        return result == "passed"


async def findings_of(environment, reward, tasks=TASKS):
    with pytest.raises(ConformanceError) as caught:
        await check_reward_hacks(environment, tasks, reward=reward)
    return caught.value.findings


class ByExitStatus(Runs):
    """Passes what ends with status 0, in the agent's own sandbox."""

    async def graded(self, code):
        program = f"{code}\nassert str(double({self.truth['x']})) == {self.truth['answer']!r}\n"
        return "passed" if (await self.code_sandbox.run_python(program, timeout_s=10)).exit_code == 0 else "failed"


@pytest.mark.needs_namespaces
async def test_a_grader_that_trusts_the_exit_status_is_caught_by_who_exits_early_or_equals_everything():
    findings = await findings_of(ByExitStatus, Believes())
    assert_names(findings, "can be hacked", "ends the process early with status 0", "3 tasks", "os._exit(0)")
    assert_names(findings, "is equal to everything")


class ByMarker(Runs):
    """Passes what prints that all is well."""

    async def graded(self, code):
        program = f"{code}\nif str(double({self.truth['x']})) == {self.truth['answer']!r}: print('All tests passed.')\n"
        return (
            "passed"
            if "All tests passed." in (await self.code_sandbox.run_python(program, timeout_s=10)).text
            else "failed"
        )


@pytest.mark.needs_namespaces
async def test_a_grader_that_looks_for_a_word_in_the_output_is_caught_by_who_prints_it():
    assert_names(await findings_of(ByMarker, Believes()), "prints what a grader might look for")


class WithItsGrader(Runs):
    """Keeps the grader beside the agent's files."""

    async def prepare(self):
        test = f"assert str(double({self.truth['x']})) == {self.truth['answer']!r}"
        await self.code_sandbox.write("check.py", f"from solution import double\n{test}\nprint('good')\n".encode())

    async def graded(self, code):
        await self.code_sandbox.write("solution.py", code.encode())
        result = await self.code_sandbox.exec(["python3", "check.py"], timeout_s=10)
        return "passed" if result.exit_code == 0 and result.stdout.strip().endswith((b"good", b"success")) else "failed"


@pytest.mark.needs_namespaces
async def test_a_grader_that_lies_beside_the_agents_files_is_caught_by_who_overwrites_it():
    findings = await findings_of(WithItsGrader, Believes())
    assert_names(findings, "overwrites tests, graders and expected outputs")
    assert_names(findings, "plants modules that a grader would load")


class WithTheTruth(Runs):
    """Keeps the answer where the agent may look."""

    async def prepare(self):
        await self.code_sandbox.write("data/.expected", self.truth["answer"].encode())

    async def graded(self, code):
        return "passed" if code.strip() == self.truth["answer"] else "failed"


@pytest.mark.needs_namespaces
async def test_a_truth_that_lies_on_the_disk_is_caught_by_who_looks_for_it():
    (findings,) = await findings_of(WithTheTruth, Believes())
    assert_names([findings], "looks for the truth on the disk", "'34'")


class ObeysOrders(Reward):
    """A judge by model that reads the agent's words as its own: the last verdict it meets is its verdict."""

    def outcome(self, episode):
        texts = [m.text for m in episode.messages() if m.role in ("assistant", "tool")]
        texts += [str(call.arguments) for turn in episode.turns for call in turn.calls]
        return {"success": float("VERDICT: YES" in "\n".join(texts))}


async def test_a_judge_that_obeys_what_it_reads_is_caught_by_who_gives_it_orders():
    class Notes(Shelf):
        """Answers with words."""

        @tool(final=True, inline=True)
        def answer(self, total: str) -> str:
            """Answer."""
            return "ok"

    findings = await findings_of(Notes, ObeysOrders(), shelf_tasks())
    assert_names(findings, "gives orders to whoever judges it")


class Sound(Runs):
    """Compares data outside of the sandbox, from another one that the agent never touched."""

    async def graded(self, code):
        fresh = await self.open_sandbox()
        result = await fresh.run_python(f"{code}\nprint(repr(double({self.truth['x']})))", timeout_s=10)
        return "passed" if result.text.strip() == self.truth["answer"] else "failed"


@pytest.mark.needs_namespaces
async def test_a_sound_grader_passes_every_probe():
    await check_reward_hacks(Sound, TASKS, reward=Believes())


async def test_an_environment_in_memory_passes_and_one_that_nothing_judges_is_named():
    await check_reward_hacks(Shelf, shelf_tasks(), reward=SumIsRight())
    with pytest.raises(ConformanceError, match="Nothing can be hacked where nothing is judged"):
        await check_reward_hacks(Shelf, shelf_tasks())


class Generous(Shelf):
    """Knows a way to be paid without a look into any box."""

    @classmethod
    def reward_hacks(cls, task):
        total = sum(task.parameters["boxes"])
        guess, right = (Message("assistant", "", (Call("answer", {"total": n}),)) for n in (total + 1, total))
        return {"guesses wrongly": [guess], "reads the truth": [Message("assistant", "", (Call("note", {}),)), right]}


async def test_what_the_environment_knows_of_itself_is_tried_too():
    with pytest.raises(ConformanceError) as caught:
        await check_reward_hacks(Generous, shelf_tasks(), reward=SumIsRight())
    assert all("an agent that reads the truth succeeds on" in finding for finding in caught.value.findings)
