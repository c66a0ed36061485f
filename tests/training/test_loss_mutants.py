"""Errors of one line between an advantage and the gradient, each of which some test of the trainer must notice."""

from __future__ import annotations

from mutants import Mutant, mutant_tests

PARTS, BATCHES, LOSS = "training/loss/microbatches.py", "training/loss/grpo_batches.py", "training/loss/policy_loss.py"
MASKS, ROWS, TRAINER = "policy/token_masks.py", "policy/separate_rows.py", "training/turn_grpo.py"
SAMPLERS = "training/samplers/__init__.py"
PPO = "methods/objectives/policy_gradient.py"
CONTRACT, GROUPED = (f"training/objectives/{name}.py" for name in ("contract", "grouped"))
PREFIXES, OF_PREFIXES = "training/loss/shared_prefixes.py", "training/test_shared_prefixes.py"
STATES, BRANCHES, ONCE, LARGE, SHARED = (
    f"{OF_PREFIXES}::{name}"
    for name in (
        "test_the_last_hidden_states_are_those_of_each_sequence_alone",
        "test_every_token_attends_to_the_tokens_that_lead_to_it",
        "test_a_prompt_is_computed_once_and_what_another_row_begins_with_not_at_all",
        "test_large_trees_have_passes_of_their_own",
        "test_the_gradient_is_that_of_the_formulas[dr_grpo-False-10000]",
    )
)
HEAD, OF_HEAD = "training/loss/frozen_head.py", "training/test_frozen_head.py"
TRIMMED = "training/test_microbatches.py::test_some_rows_of_a_batch_lose_the_columns_that_are_padding_in_them"
GRADIENT = "training/test_policy_gradient.py::test_every_objective_has_the_gradient_of_its_formula_with_every_estimator"
TURNS, TERMS, OBJECTIVES = "training/test_turn_grpo.py", "training/test_terms.py", "training/test_objectives.py"
SPLIT, FAILED, HOOK = (f"training/test_{name}.py" for name in ("microbatches", "failure_masks", "logit_hook_training"))
SEPARATE, RATIO, NOISE = (
    f"training/test_{name}.py" for name in ("training_on_rows", "decoupled_ppo", "signal_to_noise")
)

MUTANTS = [
    Mutant(PARTS, "known += loss.detach()", "known += 0 * loss.detach()", SPLIT),
    Mutant(PARTS, "trainer.accelerator.backward(loss)\n", "pass\n", SPLIT),
    Mutant(PARTS, "computed <= max_tokens", "computed <= 2 * max_tokens", SPLIT),
    Mutant(PARTS, "[orders[own][begin:end] for", "[orders[0][begin:end] for", SPLIT),
    Mutant(PARTS, "lengths[:, :-1].sum(1) * begins", "lengths[:, :-1].sum(1)", SPLIT),
    Mutant(PARTS, "-longest[self.prompts]))", "0 * longest[self.prompts]))", SPLIT),
    Mutant(
        BATCHES,
        "return float(own[torch.as_tensor(rows",
        "return len(rows) / len(own) or float(own[torch.as_tensor(rows",
        SPLIT,
    ),
    Mutant(BATCHES, '("cispo", "dapo", "vespo")', '("cispo", "vespo")', SPLIT),
    Mutant(BATCHES, "weights=token_counts[known]", "weights=None", SPLIT),
    Mutant(BATCHES, "part[name][:, -longest_prompt:]", "part[name][:, :longest_prompt]", TRIMMED),
    Mutant(BATCHES, "part[name][:, :longest_completion]", "part[name]", TRIMMED),
    Mutant(BATCHES, " and name not in _BY_GROUP", "", TRIMMED),
    Mutant(
        BATCHES,
        'batch["completion_mask"] * batch.get("tool_mask", 1)',
        'batch["completion_mask"]',
        f"{GRADIENT}[reinforce]",
    ),
    Mutant(
        BATCHES,
        "torch.from_numpy(np.stack(one_more)).long() - 1",
        "torch.from_numpy(np.stack(one_more)).long()",
        OBJECTIVES,
    ),
    Mutant(BATCHES, "t.return_from() if t.valid else np.nan", "t.return_from()", OBJECTIVES),
    Mutant(BATCHES, '"group_successes": successes[groups]', '"group_successes": returns[groups]', f"{GRADIENT}[nft]"),
    Mutant(BATCHES, "turn.index >= first and", "turn.index > first and", "training/test_assistance.py"),
    Mutant(BATCHES, "trainable = trajectory.valid and len", "trainable = len", TURNS),
    Mutant(BATCHES, 'advantages=batch["advantages"] * ratio', 'advantages=batch["advantages"]', TURNS),
    Mutant(BATCHES, "masked.append(np.where(is_masked, 0.0, advantages))", "masked.append(advantages)", FAILED),
    Mutant(BATCHES, "masked.append(np.zeros_like(advantages))", "masked.append(advantages)", FAILED),
    Mutant(HEAD, "torch.full_like(chosen, -1,", "torch.full_like(chosen, -2,", OF_HEAD),
    Mutant(HEAD, "slopes.mul_(-scale)", "slopes.mul_(-1)", OF_HEAD),
    Mutant(HEAD, "of_all.add_(entropies[rows, None]).mul_", "of_all.mul_", OF_HEAD),
    Mutant(HEAD, "(-ctx.scale * of_entropies", "(-of_entropies", OF_HEAD),
    Mutant(HEAD, "total[rows] += tile", "total[rows] = tile", OF_HEAD),
    Mutant(HEAD, "slopes[rows] = tile", "slopes[:len(probabilities)] = tile", OF_HEAD),
    Mutant(HEAD, "logits += self._bias", "pass", OF_HEAD),
    Mutant(HEAD, "logit_scale / temperature", "logit_scale", OF_HEAD),
    Mutant(HEAD, "            or trains\n", "", OF_HEAD),
    Mutant(HEAD, "            or softcap is not None\n", "", OF_HEAD),
    Mutant(HEAD, "utils._ChunkedLogProbFunction = _OF_TRL", "pass", OF_HEAD),
    Mutant(LOSS, "losses.mean() / self._accumulated_batches", "losses.mean()", OBJECTIVES),
    Mutant(LOSS, "share = part.share * objective_share(self._terms, self._progress())", "share = part.share", TERMS),
    Mutant(LOSS, "share = len(rows) / others.count", "share = 1 / others.count", f"{GRADIENT}[grao]"),
    Mutant(LOSS, "* self.num_iterations) < first_pass", "* self.num_iterations) <= first_pass", TURNS),
    Mutant(
        LOSS,
        "self.beta = self._kl\n",
        "pass\n",
        "training/test_policy_gradient.py::test_a_reference_that_only_a_term_reads_does_not_weigh_on_the_loss_of_trl",
    ),
    Mutant(LOSS, "parts[-1] = parts[-1]._replace(ends_group=True)", "pass", NOISE),
    Mutant(LOSS, "float(np.mean([each[name] for each in per_process]))", "0.0", OBJECTIVES),
    Mutant(LOSS, "sum(share * of_part[name] for", "sum(of_part[name] for", TERMS),
    Mutant(BATCHES, "and np.isfinite(np.array(turn.logprobs, float)).all()", "", TURNS),
    Mutant(TRAINER, 'batch["old_per_token_logps"] = batch["sampling_per_token_logps"]', "pass", TURNS),
    Mutant(TRAINER, 'batch.pop("importance_sampling_ratio", None)', "pass", TURNS),
    Mutant(TRAINER, 'batch["old_per_token_logps"] = second_pass.logps', "pass", TURNS),
    Mutant(TRAINER, 'batch["proximal_logps"] = batch["old_per_token_logps"]', "pass", RATIO),
    Mutant(
        TRAINER, "BatchCredit(credit, given.token_weights)", "BatchCredit(given.advantages, given.token_weights)", TURNS
    ),
    Mutant(SAMPLERS, "if task.id not in self._latest] or self._tasks", "] or self._tasks", "training/test_supply.py"),
    Mutant(TRAINER, "own_trajectories, own_credit, width).to(like)", "own_trajectories, None, width).to(like)", TURNS),
    Mutant(TRAINER, "len(own_trajectories)) // size", "len(own_trajectories)) % size", f"{GRADIENT}[nft]"),
    Mutant(MASKS, "log_left.exp() + log_left", "log_left.exp() - log_left", HOOK),
    Mutant(MASKS, "_logits(head, states, named) / self._temperature", "_logits(head, states, named)", HOOK),
    Mutant(
        MASKS, "is_scored.shape[1] - self.completion_length", "is_scored.shape[1] - self.completion_length + 1", HOOK
    ),
    Mutant(MASKS, "return logp - log_left, entropy", "return logp, entropy", HOOK),
    Mutant(ROWS, "list(own_starts[1:])", "list(own_starts[2:])", SEPARATE),
    Mutant(ROWS, "joined.view(self._shape)[:, :-1]", "joined.view(self._shape)[:, 1:]", SEPARATE),
    Mutant(PREFIXES, "np.arange(len(path) - len(tokens), len(path))", "np.arange(len(tokens))", STATES),
    Mutant(PREFIXES, "mask[own[:, None], before] = True", "pass", STATES),
    Mutant(PREFIXES, "np.tri(len(own), dtype=bool)", "np.tri(len(own), k=1, dtype=bool)", STATES),
    Mutant(PREFIXES, "np.tri(len(own), dtype=bool)", "np.tri(len(own), k=-1, dtype=bool)", STATES),
    Mutant(PREFIXES, "outputs.last_hidden_state[0]", "outputs.last_hidden_state[0].detach()", SHARED),
    Mutant(PREFIXES, "path[:common], np.arange", "path[:common][::-1], np.arange", BRANCHES),
    Mutant(PREFIXES, "size, common, new = 0, 0, len(tokens)", "size, common, new = 0, common, len(tokens)", BRANCHES),
    Mutant(PREFIXES, "np.arange(ids.shape[1]) - own.argmax(1)[:, None]", "np.arange(ids.shape[1])[None]", STATES),
    Mutant(PREFIXES, "common = _common(before, tokens)", "common = 0", ONCE),
    Mutant(PREFIXES, "is_wasteful and common <= MIN_SAVED", "False", LARGE),
    Mutant(CONTRACT, "sums = (values * self.own).sum(1)", "sums = values.sum(1)", OBJECTIVES),
    Mutant(CONTRACT, "return moved.exp() * k3(self.reference_gaps())", "return k3(self.reference_gaps())", OBJECTIVES),
    Mutant(CONTRACT, "log_ratio.exp() - 1 - log_ratio", "log_ratio.exp() - 1 + log_ratio", OBJECTIVES),
    Mutant(CONTRACT, "self.own.sum(1).clamp(min=1) if", "self.max_length if", OBJECTIVES),
    Mutant(CONTRACT, "return 1.0 - sum(", "return 1.0 + sum(", TERMS),
    Mutant(CONTRACT, "min(progress / self.warmup, 1.0)", "progress / self.warmup", TERMS),
    Mutant(CONTRACT, '("reference_kl", share * kl, distances)', '("reference_kl", kl, distances)', OBJECTIVES),
    Mutant(
        CONTRACT,
        "values * own) / lengths",
        "values) / lengths",
        "training/test_terms.py training/test_loss_gradients.py",
    ),
    Mutant(
        GROUPED, "(every.groups == group).nonzero()", "(every.groups >= group).nonzero()", f"{GRADIENT}[pairwise_ppo]"
    ),
    Mutant(
        GROUPED,
        "(tokens.logps - tokens.logps.detach()) * slopes",
        "tokens.logps * slopes",
        "training/test_outcome_objectives.py",
    ),
    Mutant(PPO, "ratio.clamp(1 - epsilon, 1 + high)", "ratio.clamp(1 + epsilon, 1 + high)", f"{GRADIENT}[ppo]"),
    Mutant(PPO, "torch.min(ratio", "torch.max(ratio", f"{GRADIENT}[ppo]"),
]

mutated, test_the_tests_pass_on_the_copy, test_an_error_of_one_line_is_caught = mutant_tests(
    MUTANTS, always=0, imports=("torch", "transformers", "trl", "peft", "datasets")
)
