#!/bin/sh
# mini-swe-agent as a program, unchanged, with a shell of its own. See programs.md in docs/how-to for how each of these
# files is used.
export MSWEA_CONFIGURED=true MSWEA_SILENT_STARTUP=1 MSWEA_COST_TRACKING=ignore_errors LITELLM_LOCAL_MODEL_COST_MAP=True
exec mini --yolo --exit-immediately --model openai/policy --output "$AGENTGYM_HOME/trajectory.json" --task "$1"
