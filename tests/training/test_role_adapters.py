"""An adapter for each role: played, imitated, trained in turn, exchanged, saved; none touches another's."""

from __future__ import annotations

import asyncio
import json
import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import lookup_environment  # noqa: F401 - registers the tasks
import pytest
import torch
from lookup_runs import RECIPE, execute
from planned import check_parts_of
from safetensors.torch import load_file

from agentgym.deprecation import AgentGymDeprecationWarning
from agentgym.errors import CreditError, PolicyError, RecipeError
from agentgym.messages import Message
from agentgym.methods.role_order import RoleOrder
from agentgym.methods.supply.observed import ObservedPairs
from agentgym.policy import Request, Sampling, make_model, make_tokenizer
from agentgym.policy.adapters import new_adapter
from agentgym.policy.checkpoint import load_checkpoint, save_atomically
from agentgym.policy.load_options import LoraOptions
from agentgym.policy.local import load as load_transformers_policy
from agentgym.policy.role_adapters import role_adapters_of, save_each_role
from agentgym.storage.ledger import Ledger
from agentgym.storage.run_folder import RunFolder
from agentgym.training import BatchPass, Recipe
from agentgym.training.gatherers.step import StepRequest
from agentgym.training.loss.grpo_batches import input_column
from agentgym.training.model.models import load_model

ROLES = ["pioneer", "observer"]
IDS = torch.arange(10, 34).reshape(2, 12)


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("base") / "model"
    tokenizer = make_tokenizer(["press the button"], 300)
    save_atomically(make_model(tokenizer, hidden=32, layers=2, heads=2, kv_heads=1), tokenizer, folder)
    return folder


def adapted(base: Path, *, moved: bool = True):
    """A model with an adapter for each role, each of which changes something."""
    model, tokenizer = load_checkpoint(base, device="cpu")
    model = new_adapter(model, LoraOptions(rank=2, alpha=4, roles=ROLES), base=str(base), seed=0)
    if moved:
        torch.manual_seed(1)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if ".lora_B." in name:
                    parameter.normal_(std=0.3)
    return model.eval(), tokenizer


def logits(model, roles: list[str] | None = None) -> torch.Tensor:
    adapters = role_adapters_of(model)
    with torch.no_grad():
        if roles is None or adapters is None:
            return model(input_ids=IDS).logits
        with adapters.computing(roles):
            return model(input_ids=IDS).logits


def test_each_sequence_of_a_pass_is_computed_in_its_own_role(base):
    model, _ = adapted(base)
    plain = logits(load_checkpoint(base, device="cpu")[0])
    pioneer, observer, mixed = logits(model, ROLES[:1]), logits(model, ROLES[1:]), logits(model, ROLES)
    assert not torch.allclose(pioneer, observer, atol=1e-3)
    assert not torch.allclose(pioneer, plain, atol=1e-3)
    torch.testing.assert_close(mixed, torch.stack([pioneer[0], observer[1]]))
    torch.testing.assert_close(logits(model, [""]), pioneer)
    torch.testing.assert_close(logits(adapted(base, moved=False)[0], ROLES), plain)


def test_a_pass_that_names_no_role_or_an_unknown_one_is_an_error(base):
    model, _ = adapted(base)
    with pytest.raises(PolicyError, match="a forward pass was requested without a role"):
        logits(model)
    with pytest.raises(PolicyError, match=r"'judge' has no adapter: policy.lora.roles lists only pioneer, observer"):
        logits(model, ["judge"])


def test_a_role_that_plays_in_no_sequence_has_a_gradient_of_exactly_0(base):
    model, _ = adapted(base)
    with role_adapters_of(model).computing(["observer"]):
        model(input_ids=IDS).logits.square().mean().backward()
    for name, parameter in model.named_parameters():
        if ".lora_" in name:
            pioneer, observer = parameter.grad.chunk(2, 0 if ".lora_A." in name else 1)
            assert not pioneer.any()
            assert observer.any()


def test_exchanging_adapters_is_exact_and_takes_the_optimiser_with_it(base):
    model, _ = adapted(base)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-3)
    with role_adapters_of(model).computing(["observer"]):
        model(input_ids=IDS).logits.square().mean().backward()
    optimizer.step()
    before = {role: logits(model, [role]) for role in ROLES}
    moments = [optimizer.state[parameter]["exp_avg"].clone() for parameter in trained]
    role_adapters_of(model).rotate(model, optimizer.state)
    assert torch.equal(logits(model, ["pioneer"]), before["observer"])
    assert torch.equal(logits(model, ["observer"]), before["pioneer"])
    assert not all(torch.equal(optimizer.state[p]["exp_avg"], was) for p, was in zip(trained, moments, strict=True))
    role_adapters_of(model).rotate(model, optimizer.state)
    assert all(torch.equal(optimizer.state[p]["exp_avg"], was) for p, was in zip(trained, moments, strict=True))
    assert torch.equal(logits(model, ["pioneer"]), before["pioneer"])


def test_saved_adapters_play_in_their_roles_and_each_by_itself(base, tmp_path):
    model, tokenizer = adapted(base)
    save_atomically(model, tokenizer, tmp_path / "all", selected_adapters=["default"], save_embedding_layers=False)
    loaded, _ = load_checkpoint(tmp_path / "all", device="cpu")
    torch.testing.assert_close(logits(loaded.eval(), ROLES), logits(model, ROLES))
    save_each_role(tmp_path / "all", tmp_path / "each")
    for role in ROLES:
        alone, _ = load_checkpoint(tmp_path / "each" / role, device="cpu")
        torch.testing.assert_close(logits(alone.eval()), logits(model, [role]), atol=1e-5, rtol=1e-4)


def test_a_policy_answers_each_request_in_its_role(base, tmp_path):
    model, tokenizer = adapted(base)
    save_atomically(model, tokenizer, tmp_path / "all", selected_adapters=["default"], save_embedding_layers=False)
    save_each_role(tmp_path / "all", tmp_path / "each")
    request = Request((Message("user", "press the button"),), (), None, Sampling(1.0, 1.0, 8, 3), "e", 0)

    async def answers(path: Path, roles: list[str]) -> list[list[int]]:
        policy = load_transformers_policy(str(path), call_format="hermes")
        requests = [replace(request, role=role, episode=f"e{n}") for n, role in enumerate(roles)]
        replies = await asyncio.gather(*map(policy.generate, requests))
        await policy.close()
        return [list(reply.token_ids) for reply in replies]

    together = asyncio.run(answers(tmp_path / "all", [*ROLES, ""]))
    alone = [asyncio.run(answers(tmp_path / "each" / role, [""]))[0] for role in ROLES]
    assert together == [*alone, alone[0]]
    assert alone[0] != alone[1]
    with pytest.raises(PolicyError, match="'judge' has no adapter"):
        asyncio.run(answers(tmp_path / "all", ["judge"]))


GAME = torch.tensor([[1.0, 2.0], [2.0, -9.0]], dtype=torch.float64)
"""What two players earn together: each gains by leaving the first action alone, both together lose by it."""
JOINT = [(a, b) for a in range(2) for b in range(2)]


def expected(players: list[torch.Tensor]) -> float:
    return float(torch.softmax(players[0], 0) @ GAME @ torch.softmax(players[1], 0))


def of_joint(players: list[torch.Tensor]) -> torch.Tensor:
    """(4, 2) the log-probability of each player's part of each joint action."""
    logps = [torch.log_softmax(player, 0) for player in players]
    return torch.stack([torch.stack([logps[0][a], logps[1][b]]) for a, b in JOINT])


def updated(start: list[torch.Tensor], rate: float, order: RoleOrder | None) -> list[torch.Tensor]:
    """One step of policy gradient of both players over the whole game, with or without an order."""
    players, old = [player.clone() for player in start], of_joint(start)
    value = expected(start)
    batch = {  # a token of each player in every row
        "completion_mask": torch.ones(4, 2),
        "tool_mask": torch.ones(4, 2),
        input_column("role_of_token"): torch.tensor([[0, 1]] * 4),
        "advantages": torch.stack([GAME[pair] - value for pair in JOINT])[:, None].expand(4, 2),
        "old_per_token_logps": old,
    }
    for number in range(2):
        update = BatchPass(batch, number, lambda _: of_joint(players))
        given = (update if order is None else order.change_pass(update)).batch
        assert order is None or (given["tool_mask"][:, 1 - number] == 0).all()
        player = players[number].clone().requires_grad_()
        logps = torch.log_softmax(player, 0)[[pair[number] for pair in JOINT]]
        # The rows are all joint actions, so each counts by its chance; a batch of samples has that by itself.
        (old.sum(1).exp() * given["advantages"][:, number] * logps).sum().backward()
        players[number] = players[number] + rate * player.grad
    return players


def test_roles_updated_in_turn_never_lose_where_all_at_once_do():
    """The later player takes into account what the earlier one has become."""
    falls = {"in turn": 0, "at once": 0}
    for step in range(20):
        start = [torch.tensor([1.0 + step / 5, 0.0], dtype=torch.float64)] * 2
        for name, order in (("in turn", RoleOrder(roles=["first", "second"])), ("at once", None)):
            players = start
            for _ in range(20):
                before, players = expected(players), updated(players, 30.0, order)
                falls[name] += expected(players) < before - 1e-9
    assert falls["in turn"] == 0
    assert falls["at once"] > 20


def recipe(base: Path, **train) -> Recipe:
    data = json.loads(json.dumps(RECIPE))
    data["policy"] = {"path": str(base), "lora": {"rank": 2, "alpha": 4, "roles": ROLES}, "call_format": "hermes"}
    data["warm_start"] |= {"steps": 2, "validate_tasks": 1}
    data["train"] |= {"gather": ["observed"], "save_every": 2, "validate_tasks": 1, "keep_checkpoints": 4} | train
    data["reward"] = {"name": "test_vowels"}
    data["evaluate"]["tasks"] = 2
    return Recipe.parse(data)


ROTATED = {"parts": {"role_rotation": {"every": 1}}, "optimiser": {"learning_rate": 0.01}, "kl": 0.01}


@pytest.fixture(scope="module")
def run(base, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("roles") / "run"
    execute(recipe(base, **ROTATED), folder)
    return folder


def final_weights(run: Path) -> dict[str, torch.Tensor]:
    return load_file(run / "checkpoints" / "final" / "adapter_model.safetensors")


@pytest.mark.thorough
def test_pioneers_and_observers_train_an_adapter_each(run):
    rows = RunFolder(run).metrics("train")
    assert max(row["guard/drift"] for row in rows) < 1e-5  # sampled as trained, in both roles
    assert all(row["roles/observer/kl"] >= 0 for row in rows)
    assert all(row["roles/observer/reward"] == pytest.approx(row["roles/unnamed/reward"]) for row in rows)
    with closing(Ledger(run / "ledger.sqlite")) as ledger:
        episodes = [episode for episode in ledger.trajectories() if episode.id.startswith("train-")]
    observers = [episode for episode in episodes if episode.turns[0].role == "observer"]
    assert len(observers) * 2 == len(episodes) == 4 * 8
    by_key = {
        (e.id.split("/")[0].removesuffix("-observer"), e.task.id, e.sample): e for e in episodes if e not in observers
    }
    for observer in observers:
        pioneer = by_key[observer.id.split("/")[0].removesuffix("-observer"), observer.task.id, observer.sample]
        assert pioneer.return_from() == pytest.approx(observer.return_from())
        text = "\n".join(message.text for message in observer.opening)
        assert ("Another agent" in text) == bool(pioneer.turns[0].message.text or pioneer.turns[0].calls)
    a = next(value for name, value in final_weights(run).items() if ".lora_B." in name)
    pioneer, observer = a.chunk(2, 1)
    assert pioneer.any()
    assert observer.any()
    assert sorted(path.name for path in (run / "checkpoints" / "adapter").iterdir()) == sorted(ROLES)


def test_a_run_with_roles_goes_on_where_it_was(base, run, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    for name in (
        "final",
        "adapter",
        *(p.name for p in (copy / "checkpoints").glob("checkpoint-*") if p.name != "checkpoint-4"),
    ):
        shutil.rmtree(copy / "checkpoints" / name)
    for name in ("ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm", "evaluation/after.json"):
        (copy / name).unlink(missing_ok=True)
    execute(
        recipe(base, parts={"role_rotation": {"every": 1}}, optimiser={"learning_rate": 0.01}, kl=0.01),
        copy,
        resume=True,
    )
    first, second = final_weights(run), final_weights(copy)
    assert all(torch.equal(value, second[name]) for name, value in first.items())


@pytest.mark.parametrize("order", [pytest.param(["observer"], marks=pytest.mark.thorough), ["observer", "pioneer"]])
def test_each_pass_over_a_batch_updates_one_role(base, tmp_path, order):
    execute(
        recipe(base, steps=2, parts={"role_order": {"roles": order}}, optimiser={"learning_rate": 0.01}),
        tmp_path / "run",
    )
    start = load_file(tmp_path / "run" / "checkpoints" / "warm_start" / "adapter_model.safetensors")
    end = final_weights(tmp_path / "run")
    moved = dict.fromkeys(ROLES, False)
    for name, value in end.items():
        dimension = 0 if ".lora_A." in name else 1
        pairs = zip(ROLES, value.chunk(2, dimension), start[name].chunk(2, dimension), strict=True)
        for role, after, before in pairs:
            moved[role] |= not torch.equal(after, before)
    assert moved == {role: role in order for role in ROLES}
    assert len(RunFolder(tmp_path / "run").metrics("train")) == 2 * len(order)


def test_the_final_checkpoint_is_evaluated_in_its_roles(run):
    model, _ = load_checkpoint(run / "checkpoints" / "final", device="cpu")
    assert role_adapters_of(model).roles == tuple(ROLES)
    with pytest.raises(RecipeError, match="a model can be played but not trained further"):
        load_model(Recipe.parse(RECIPE | {"policy": {"path": str(run / "checkpoints" / "final")}}).policy, "cpu", 0)


def test_an_odd_number_of_tasks_cannot_be_shared_out():
    with pytest.raises(CreditError, match="an even number"):
        ObservedPairs(lambda step: [])(StepRequest(None, None, [object()] * 3, "x", 2))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"machine": {"gradient_checkpointing": True}}, "policy.lora.roles and machine.gradient_checkpointing"),
        ({"policy": {"lora": {"roles": ["one"]}}}, "name at least two different roles"),
    ],
)
def test_recipes_that_cannot_be_are_refused(base, changes, message):
    data = json.loads(json.dumps(RECIPE))
    data["policy"] = {"path": str(base), "lora": {"roles": ROLES}}
    for section, values in changes.items():
        data[section] |= values
    with pytest.raises(RecipeError, match=message.replace("[", r"\[")):
        Recipe.parse(data)


@pytest.mark.parametrize(
    ("roles", "parts", "message"),
    [
        (
            ROLES,
            {"role_order": {"roles": ["judge"]}},
            "'judge', which has no adapter: choose from policy.lora.roles, which has pioneer, observer",
        ),
        ([], {"role_rotation": {"every": 1}}, "role_rotation. takes turns among the adapters of roles"),
    ],
)
def test_updates_of_roles_that_have_no_adapter_are_refused(base, roles, parts, message):
    data = json.loads(json.dumps(RECIPE))
    data["policy"] = {"path": str(base), "lora": {"roles": roles}}
    data["train"]["parts"] = parts
    with pytest.raises(RecipeError, match=message):
        check_parts_of(Recipe.parse(data))


def test_the_keys_of_earlier_versions_name_the_parts(base):
    old = recipe(base).model_dump(exclude_none=True)
    old["train"]["roles"] |= {"order": ["observer", "pioneer"], "rotate_every": 2}
    with pytest.warns(AgentGymDeprecationWarning, match="train.parts.role_"):
        new = Recipe.parse(old)
    assert new.train.parts == {"role_order": {"roles": ["observer", "pioneer"]}, "role_rotation": {"every": 2}}
    assert new.train.passes == 2


def test_a_recorded_recipe_of_an_earlier_version_that_updates_roles_together_is_the_same(base):
    old = recipe(base).model_dump(exclude_none=True)
    old["train"]["roles"] |= {"order": [], "rotate_every": 0}
    old["train"]["reference"] |= {"episodes": 8, "temperature": 0.5}
    assert Recipe.parse(old) == recipe(base)
