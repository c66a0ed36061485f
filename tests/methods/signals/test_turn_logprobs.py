"""Stages on stored turns are trained by the log-probabilities of the agent's own tokens, and by no others."""

from __future__ import annotations

import torch
from problem_episodes import TARGET, Names, action_chances, trajectory_of

from agentgym.methods.stored_turns.transitions import ReturnSpec, StoredEpisode
from agentgym.methods.stored_turns.turn_logprobs import token_logprobs
from agentgym.policy import make_model, make_tokenizer


def test_a_stored_turn_moves_its_own_tokens_and_neither_a_result_nor_another_turn():
    """The gradient at the last hidden states, from which each next token is predicted; logits by the whole model."""
    path = next(path for path in TARGET["flip"].paths if len(path.steps) == 3)
    stored = StoredEpisode.of(trajectory_of(path, "x", Names(), action_chances(TARGET["flip"])), ReturnSpec())
    transitions = [stored.transition(1), stored.transition(2)]
    model = make_model(make_tokenizer(["one two three"]), hidden=16, layers=1, heads=1, kv_heads=1, seed=0)
    states: list[torch.Tensor] = []

    def keep(_, __, outputs):
        outputs.last_hidden_state.retain_grad()
        states.append(outputs.last_hidden_state)

    hook = model.base_model.register_forward_hook(keep)
    rows = token_logprobs(model, transitions, temperature=0.5)
    hook.remove()
    torch.stack([row.sum() for row in rows]).sum().backward()
    [state] = states
    for row, transition in enumerate(transitions):
        moved = (state.grad[row].abs().sum(-1) > 0).nonzero()[:, 0].tolist()
        assert moved == list(range(transition.own_begin - 1, transition.own_end - 1))
        ids = torch.from_numpy(transition.ids[: transition.own_end])[None]
        with torch.no_grad():
            logps = (model(ids).logits[0] / 0.5).log_softmax(-1)
        expected = logps[transition.own_begin - 1 : transition.own_end - 1].gather(
            -1, ids[0, transition.own_begin :, None]
        )
        torch.testing.assert_close(rows[row].detach(), expected[:, 0])
