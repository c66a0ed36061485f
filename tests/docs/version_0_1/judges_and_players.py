"""Rewards annotated as docs/rewards.md did, and the scripted players of the bundled task sets."""

from agentgym import Reward, load_task_set, make
from agentgym.interop.gymnasium import GymnasiumWorld, register_gymnasium
from agentgym.reward import Components, Moment, TurnView
from agentgym.reward.contract import EpisodeView
from agentgym.sandboxes.text import NumberGuess, TextWorld
from agentgym.tasks import one_line_bugs, store, wiki


class Terse(Reward):
    """One for a short answer."""

    def turn(self, turn: TurnView, episode: EpisodeView) -> Components:
        return {"terse": float(len(turn.message.text) < 20)}

    def judges(self, moment: Moment) -> bool:
        return moment == "turn"


assert [Terse().has_stage(stage) for stage in ("turn", "outcome")] == [True, False]
for task_set, module in (("swe/one-line-v1", one_line_bugs), ("sql/store-v1", store), ("search/wiki-v1", wiki)):
    assert load_task_set(task_set).novice is module.novice, task_set
assert NumberGuess.novice is NumberGuess.imperfect_oracle
assert issubclass(NumberGuess, TextWorld)
assert isinstance(make(register_gymnasium("FrozenLake-v1", name="acme/lake-v1")), GymnasiumWorld)
print("Every old name led to the new one.")
