"""Signals that an estimator requires but recorded episodes do not have.

A provider computes one or more signals of `agentgym.credit.Group` for the trajectories of a batch, and may learn from
the batch afterwards. The policy never sees a provider's knowledge, such as gold answers or other endings. Providers are
registered under the kind `signal_providers` by the names of their signals; the bundled ones are in methods/signals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentgym.moved import lazy_names

if TYPE_CHECKING:
    from agentgym.training.signals.provider import SignalProvider, SignalSources

_HOME = {"SignalProvider": "provider", "SignalSources": "provider"}

__all__ = ["SignalProvider", "SignalSources"]

__getattr__ = lazy_names(__name__, _HOME)
