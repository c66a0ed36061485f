"""Errors of one line in samplers, gatherers and searches, each of which the tests of their folders must notice."""

from __future__ import annotations

from mutants import Mutant, mutant_tests

CURRICULUM, SHUFFLED = "methods/supply/curriculum.py", "training/samplers/__init__.py"
LEARNABLE, UCB, PAIRED = "methods/supply/learnable.py", "methods/supply/ucb.py", "methods/supply/paired.py"
PASS_RATE, REFILL, VARIANCE = (
    "methods/supply/pass_rate.py",
    "methods/supply/refill.py",
    "methods/supply/max_variance.py",
)
MCTS, BEAM, FIRST, TREE = (f"methods/search/{name}.py" for name in ("mcts", "beam", "best_first", "tree"))
DRAWS, PAIRS = "methods/supply/test_samplers.py", "methods/supply/test_paired_sampler.py"
RISES = " ".join(
    f"methods/supply/test_curriculum.py::test_{name}"
    for name in (
        "it_begins_with_the_easiest_and_rises_level_by_level_to_the_hardest",
        "it_rises_after_eight_prompts_at_nine_in_ten",
        "it_remembers_four_times_the_prompts_that_a_rise_takes",
        "failed_episodes_are_no_evidence",
        "levels_of_the_window_are_drawn_equally_often_whatever_their_number_of_tasks",
    )
)
TREES, GROWN = "methods/search/test_tree_search.py", "methods/search/test_search_tree.py"
BEAMS, BEST = "methods/search/test_beam.py", "methods/search/test_best_first.py"
BY_HAND = (
    f"{TREES}::test_an_action_is_worth_the_mean_over_its_outcomes_as_often_as_they_came_out_however_they_were_visited"
)
PRIOR = f"{TREES}::test_puct_prefers_what_the_policy_does_often_and_uct_what_was_tried_least"

MUTANTS = [
    Mutant(CURRICULUM, "-4 * self._prompts", "-1 * self._prompts", RISES),
    Mutant(CURRICULUM, "mean >= self._accuracy", "mean > self._accuracy", RISES),
    Mutant(CURRICULUM, "len(self._recent) >= self._prompts", "len(self._recent) > self._prompts", RISES),
    Mutant(CURRICULUM, "self._cap - self._window + 1)", "self._cap - self._window)", RISES),
    Mutant(CURRICULUM, "if t.valid and t.success is not None]", "if t.success is not None]", RISES),
    Mutant(
        CURRICULUM,
        "draws.choice(self._by_level[draws.choice(self.open_levels)])",
        "draws.choice([t for level in self.open_levels for t in self._by_level[level]])",
        RISES,
    ),
    Mutant(CURRICULUM, "and group[0].task.difficulty == self.cap", "and True", RISES),
    Mutant(SHUFFLED, "divmod(step * count + index", "divmod(step + index", "methods/supply/test_tagged_sampler.py"),
    Mutant(
        SHUFFLED,
        "seed_of(self._name, self._seed, epoch)",
        "seed_of(self._name, self._seed)",
        "methods/supply/test_tagged_sampler.py",
    ),
    Mutant(
        SHUFFLED,
        "seed_of(self._name, self._seed, epoch)",
        "seed_of(self._name, epoch)",
        "methods/supply/test_tagged_sampler.py",
    ),
    Mutant(LEARNABLE, "return success * (1 - success)", "return success", DRAWS),
    Mutant(LEARNABLE, "/ (self._memory + 1)", "/ self._memory", DRAWS),
    Mutant(LEARNABLE, "self._success.get(name, 0.5)", "self._success.get(name, 0.0)", DRAWS),
    Mutant(LEARNABLE, "                del left[name]", "                pass", DRAWS),
    Mutant(UCB, "np.mean(np.abs(np.array(returns) - np.mean(returns)))", "np.mean(np.abs(np.array(returns)))", DRAWS),
    Mutant(UCB, "/ (1 + self._group_counts[arm])", "/ 1", DRAWS),
    Mutant(UCB, "self._group_counts[arm] += 1", "self._group_counts[arm] += 0", DRAWS),
    Mutant(UCB, "[-self._window :]", "[: self._window]", DRAWS),
    Mutant(PASS_RATE, "low <= rates[task.id] <= high", "low < rates[task.id] <= 1", DRAWS),
    Mutant(MCTS, "action.times / times * math.sqrt", "math.sqrt", TREES),
    Mutant(MCTS, "math.sqrt(visits) / (1 + action.visits)", "math.sqrt(visits) / (1 + visits)", TREES),
    Mutant(MCTS, "math.log(visits) / action.visits", "math.log(visits) / visits", TREES),
    Mutant(MCTS, "outcome.times * outcome.mean for", "outcome.mean for", TREES),
    Mutant(MCTS, "outcome.visits / outcome.times)", "outcome.visits)", TREES),
    Mutant(MCTS, "return self.total / self.visits", "return self.total / (self.visits + 1)", TREES),
    Mutant(MCTS, "self.visits += len(values)", "self.visits += 1", TREES),
    Mutant(BEAM, "key=lambda node: -node.value)[: self.width]", "key=lambda node: -node.value)", BEAMS),
    Mutant(BEAM, "key=lambda node: -node.value)", "key=lambda node: node.value)", BEAMS),
    Mutant(BEAM, "grown = [node for node in beam if node.ended]", "grown = []", BEAMS),
    Mutant(FIRST, "(-child.value, next(numbers), child)", "(child.value, next(numbers), child)", BEST),
    Mutant(
        FIRST,
        "for child in tree.fresh(await tree.expand(node, self.candidates)):",
        "for child in await tree.expand(node, self.candidates):",
        BEST,
    ),
    Mutant(FIRST, "while not node.ended and tree.nodes_left:", "while tree.nodes_left:", BEST),
    Mutant(TREE, "min(left, calls - self.cost.calls)", "left", f"{BEST} {GROWN}"),
    Mutant(TREE, "count = min(count, self.nodes_left)", "pass", f"{BEST} {GROWN}"),
    Mutant(TREE, "number += self._sample * self._search.nodes", "pass", GROWN),
    Mutant(TREE, "            self._keys.add(node.key)", "            pass", BEST),
]

mutated, test_the_tests_pass_on_the_copy, test_an_error_of_one_line_is_caught = mutant_tests(MUTANTS, always=0)
