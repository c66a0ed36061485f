"""Collected by `make test-vllm` alone: AGENTGYM_VLLM_PYTHON names an interpreter that has vLLM."""

from __future__ import annotations

import os

if not os.environ.get("AGENTGYM_VLLM_PYTHON"):
    collect_ignore_glob = ["test_*.py"]
