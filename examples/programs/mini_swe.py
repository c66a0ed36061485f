"""mini-swe-agent as a program: its commands run in the environment's shell, and its model is the policy.

Needs the package mini-swe-agent, in an environment of its own; see openai_agents.py. For environments with a tool
`bash` and one `done`, such as `agentgym/code-bash-v1`: `done` is called when the agent says that it has finished.
"""

import os
import sys
from pathlib import Path

os.environ.update(MSWEA_SILENT_STARTUP="1", MSWEA_COST_TRACKING="ignore_errors", LITELLM_LOCAL_MODEL_COST_MAP="True")

import httpx
import yaml
from minisweagent import package_dir
from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.exceptions import Submitted
from minisweagent.models.litellm_model import LitellmModel


def call(name: str, **arguments: str) -> str:
    """Run a tool of the episode."""
    headers = {"Authorization": f"Bearer {os.environ['AGENTGYM_TOKEN']}"}
    url = f"{os.environ['AGENTGYM_URL']}/episode/tools/{name}"
    return httpx.post(url, json=arguments, headers=headers, timeout=120).raise_for_status().json()["text"]


class GymEnvironment(LocalEnvironment):
    """Commands go to the tool `bash` of the episode instead of this machine."""

    def execute(self, action: dict, cwd: str = "", *, timeout: int | None = None) -> dict:
        output = {"output": call("bash", command=action["command"]), "returncode": 0, "exception_info": ""}
        try:
            self._check_finished(output)
        except Submitted:
            call("done")
            raise
        return output


def main(task: str) -> None:
    config = yaml.safe_load(Path(package_dir / "config" / "mini.yaml").read_text())
    names = ("system_template", "instance_template", "step_limit", "cost_limit")
    options = {name: config["agent"][name] for name in names if name in config["agent"]}
    DefaultAgent(LitellmModel(model_name="openai/policy"), GymEnvironment(), **options).run(task)


if __name__ == "__main__":
    main(sys.argv[1])
