"""What each of two processes runs for test_sharding.py: imitation with weights in parts, unbroken and resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from transformers import TrainerCallback

from agentgym import Message, Task, Trajectory, Turn
from agentgym.policy.silence import silence_libraries
from agentgym.policy.tiny import make_model, make_tokenizer
from agentgym.training.imitation import Example, ImitationOptions, imitate
from agentgym.training.model.sharding import gather_into, is_sharded, sharing_copy
from agentgym.training.processes import ALONE, Processes

TOKENIZER = make_tokenizer(["the red box holds seven coins"], vocab_size=300)


def example(number: int) -> Trajectory:
    """A trajectory of one turn, of a length that depends on the number."""
    text = TOKENIZER.encode(f"the {'red ' * (number % 3)}box holds {number} coins")
    turn = Turn(0, Message("assistant", ""), token_ids=text[2:], logprobs=[0.0] * len(text[2:]))
    return Trajectory(str(number), Task(str(number), "none"), turns=[turn], prompt_ids=text[:2])


class StopsOnceSaved(TrainerCallback):
    """Stops after the first checkpoint."""

    def on_save(self, args, state, control, **_):
        control.should_training_stop = True


def imitated(folder: Path, processes: Processes = ALONE, callbacks: tuple[TrainerCallback, ...] = ()) -> Any:
    """A small model after four steps; a whole copy of it if it is sharded over several processes."""
    model = make_model(TOKENIZER, hidden=16, layers=2, heads=2, kv_heads=1, seed=0)
    full_copy = sharing_copy(model)
    with silence_libraries():
        imitate(
            model,
            TOKENIZER,
            [Example(example(number)) for number in range(12)],
            ImitationOptions(
                folder=folder,
                steps=4,
                batch_size=4,
                learning_rate=1e-3,
                seed=0,
                microbatch_tokens=20,
                save_every=2,
                sharding="fsdp" if processes.count > 1 else None,
            ),
            callbacks=callbacks,
            processes=processes,
        )
    assert is_sharded(model) == (processes.count > 1)
    if is_sharded(model):
        gather_into(model, full_copy if processes.is_first else None)
    return full_copy


def imitate_in_parts(folder: Path) -> None:
    """Write the weights of both into the folder, as unbroken.safetensors and resumed.safetensors."""
    processes = Processes.joined("cpu", 300.0)
    unbroken = imitated(folder / "unbroken", processes)
    imitated(folder / "broken", processes, (StopsOnceSaved(),))
    resumed = imitated(folder / "broken", processes)
    if processes.is_first:
        for name, model in (("unbroken", unbroken), ("resumed", resumed)):
            save_file(dict(model.named_parameters()), folder / f"{name}.safetensors")
