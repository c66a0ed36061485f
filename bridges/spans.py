"""Episodes as OpenTelemetry spans, by the conventions for generative AI: an agent, its messages, its tool calls.

They go to the collector that OTEL_EXPORTER_OTLP_ENDPOINT names, else as a line of JSON each into the run's spans.jsonl.
Spans have the measured durations; an episode counts as ended when its step is logged.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentgym import Trajectory, Turn
from agentgym.tools import replace_lone_surrogates

from .conversation import conversation, shortened

__all__ = ["OpenTelemetry"]

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


class OpenTelemetry:
    """Sends each episode as one trace; it gets no metrics."""

    package, extra = "opentelemetry.sdk", "opentelemetry"

    def __init__(self, folder: Path, name: str, config: Mapping[str, Any]) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SimpleSpanProcessor

        self._file = None
        resource = Resource.create({"service.name": "agentgym", "service.instance.id": name})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        if any(os.environ.get(variable) for variable in _ENDPOINTS):
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

            self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        else:
            self._file = (folder / "spans.jsonl").open("a", encoding="utf-8")
            exporter = ConsoleSpanExporter(out=self._file, formatter=lambda span: span.to_json(indent=None) + "\n")
            self._provider.add_span_processor(SimpleSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("agentgym")

    def log(self, step: int, phase: str, metrics: Mapping[str, float]) -> None:
        """Do nothing: metrics are not spans."""

    def log_episodes(self, step: int, phase: str, episodes: Sequence[Trajectory]) -> None:
        for episode in episodes:
            self._log_episode(episode, {"agentgym.step": step, "agentgym.phase": phase})

    def close(self, *, failed: bool) -> None:
        self._provider.shutdown()
        if self._file is not None:
            self._file.close()

    def _log_episode(self, episode: Trajectory, where: Mapping[str, Any]) -> None:
        end = time.time_ns()
        at = end - _ns(max(episode.duration_s, sum(turn.generate_s + turn.tools_s for turn in episode.turns)))
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": episode.provenance.policy or "agent",
            "gen_ai.conversation.id": episode.id,
            "agentgym.task": episode.task.id,
            "agentgym.environment": episode.task.environment,
            "agentgym.stop_reason": episode.stop_reason.value if episode.stop_reason else "",
            **{f"agentgym.outcome.{name}": value for name, value in episode.outcome.items()},
            **where,
        }
        root = self._span(f"invoke_agent {episode.task.id}", None, at, attributes, episode.error)
        messages = [
            {"role": entry.message.role, "content": entry.message.written}
            for entry in conversation(episode)
            if entry.turn < 0
        ]
        for turn in episode.turns:
            at = self._log_turn(root, turn, messages, at)
            messages = [{"role": read.role, "content": shortened(read.written)} for read in turn.observation()]
        root.end(end)

    def _log_turn(self, root: Any, turn: Turn, read: Sequence[Mapping[str, Any]], at: int) -> int:
        """Log a message, with what the policy read since the one before, and its calls. Returns: when they ended."""
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": json.dumps(read, ensure_ascii=False),
            "gen_ai.output.messages": json.dumps([{"role": "assistant", "content": turn.message.written}]),
            "gen_ai.response.finish_reasons": [turn.finish_reason],
            "gen_ai.usage.output_tokens": len(turn.token_ids),
            "agentgym.turn": turn.index,
            "agentgym.policy_version": turn.policy_version,
            **{f"agentgym.reward.{name}": value for name, value in turn.rewards.items()},
        }
        ended = at + _ns(turn.generate_s)
        self._span("chat", root, at, attributes).end(ended)
        for call, result in zip(turn.calls, turn.results, strict=False):
            attributes = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": call.name,
                "gen_ai.tool.call.arguments": json.dumps(call.arguments, ensure_ascii=False),
                "gen_ai.tool.call.result": shortened(result.message().text),
            }
            error = None if result.ok else result.status.value
            self._span(f"execute_tool {call.name}", root, ended, attributes, error).end(ended + _ns(result.duration_s))
            ended += _ns(result.duration_s)
        return ended

    def _span(self, name: str, parent: Any, start: int, attributes: Mapping[str, Any], error: str | None = None) -> Any:
        from opentelemetry.trace import Status, StatusCode, set_span_in_context

        context = None if parent is None else set_span_in_context(parent)
        span = self._tracer.start_span(name, context, attributes=replace_lone_surrogates(attributes), start_time=start)
        if error is not None:
            span.set_status(Status(StatusCode.ERROR, error))
        return span


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)
