#!/bin/sh
# mini-swe-agent in the sandbox of its episode (tried with 2.4): agentgym sandbox program pypi:mini-swe-agent, then
# --program-where sandbox --program-package pypi:mini-swe-agent --program-file mini_swe.sh
# --program "sh {home}/mini_swe.sh {task}". It has a shell of its own: tools of the environment are not needed.
export MSWEA_CONFIGURED=true MSWEA_SILENT_STARTUP=1 MSWEA_COST_TRACKING=ignore_errors LITELLM_LOCAL_MODEL_COST_MAP=True
exec mini --yolo --exit-immediately --model openai/policy --output "$AGENTGYM_HOME/trajectory.json" --task "$1"
