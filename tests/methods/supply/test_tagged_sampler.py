"""`tagged`: a sampler that trains on the tasks with one tag."""

from __future__ import annotations

import pytest

from agentgym import Task
from agentgym.errors import CreditError, TaskError
from agentgym.training.samplers import make_sampler

TASKS = [Task(f"t{n}", "agentgym/sql-v1", "?", tags=("even" if n % 2 == 0 else "odd", "all")) for n in range(10)]


def ids(tasks):
    return [task.id for task in tasks]


def test_every_task_with_the_tag_is_drawn_once_before_one_is_drawn_again_and_no_other_is():
    sampler = make_sampler("tagged(tag='even')", TASKS, seed=0)
    drawn = [name for step in range(10) for name in ids(sampler.draw(2, step))]
    for start in range(0, 20, 5):
        assert sorted(drawn[start : start + 5]) == ["t0", "t2", "t4", "t6", "t8"]
    assert drawn[:5] != drawn[5:10], "the order of every round is drawn anew"


def test_a_step_depends_on_the_seed_and_the_step_alone():
    first, second = (make_sampler("tagged(tag='all')", TASKS, seed=3) for _ in range(2))
    first.draw(4, 0)
    assert ids(first.draw(4, 1)) == ids(second.draw(4, 1))
    assert ids(make_sampler("tagged(tag='all')", TASKS, seed=4).draw(4, 1)) != ids(first.draw(4, 1))


def test_a_tag_that_no_task_carries_is_refused_with_those_that_exist():
    with pytest.raises(TaskError, match=r"no training task has the tag many\. The tags are: all, even, odd"):
        make_sampler("tagged(tag='many')", TASKS, seed=0)
    with pytest.raises(CreditError, match=r"'tagged' needs the option 'tag'\. Write it as tagged\(tag=\.\.\.\)"):
        make_sampler("tagged", TASKS, seed=0)
    with pytest.raises(CreditError, match="label"):
        make_sampler("tagged(label='even')", TASKS, seed=0)
