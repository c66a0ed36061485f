"""Every error agentgym raises on purpose, in one tree.

AgentGymError
|-- ToolError               for the agent: becomes the result of its call, the episode goes on
|   |-- FilesNotCaptured    the agent's files cannot be captured: too many, too large or too deep
|   `-- SandboxExhausted    the agent's code ended its sandbox, by memory use or by what it left (also SandboxDied)
|-- ToolDefinitionError     a tool without type hints, docstring or a usable signature (TypeError)
|-- UnknownNameError        nothing is registered under this name (KeyError)
|-- DuplicateNameError      the name is taken by something else (ValueError)
|-- RegistrationError       the registered object does not fit its kind (TypeError)
|-- MissingExtraError       an optional dependency is not installed (ImportError)
|-- TaskError               a task file, row or set that cannot be used (ValueError)
|   |-- SplitLeakError      two splits share an id or the same content
|   `-- HeldOutError        a trainer asked for the held-out split (PermissionError)
|-- RewardError             a reward function returned something that is not a reward (ValueError)
|-- JudgeError              a judge could not judge: the episode is kept, not trained on (RuntimeError)
|-- SandboxError            the isolated machine failed, never the agent's code (RuntimeError)
|   |-- SandboxDied         the sandbox ended or stopped answering (ConnectionError)
|   |-- HostOverloaded      the host kept code from running for many times its time limit
|   |-- SandboxUnavailable  no sandbox can be made: something is exhausted or missing
|   `-- LimitUnenforceable  this machine cannot enforce a limit that the spec asks for
|-- EnvironmentServerError  the server that runs environments, or the connection to it, failed (RuntimeError)
|   |-- ServerUnreachable   the server does not answer, or ended during a request (ConnectionError)
|   |-- LeaseLost           the server gave up the episode, which lost its environment (ConnectionError)
|   |-- ServerFull          the server had no room for another episode in time
|   |-- AccessRefused       the server does not accept the token (PermissionError)
|   `-- VersionMismatch     the server's protocol differs, or its environment is not the one the run began with
|-- RemoteEnvironmentError  the code of an environment on a server raised an error: a bug there (RuntimeError)
|-- ClusterError            a cluster that cannot be reached or used, or whose last node is gone (RuntimeError)
|   |-- NodeLost            a node is gone or silent; its last request may have been executed (ConnectionError)
|   `-- NodeFailed          an episode failed on a node, but may succeed on another
|-- PolicyError             the model or its server failed (RuntimeError)
|   |-- ContextFull         the conversation no longer fits the model's context
|   |-- ScriptEnded         a scripted policy has no messages left
|   |-- PolicyLeft          the external program that plays the agent has disconnected
|   |-- RequestsRefused     the gateway cannot do what an agent's program asks for
|   `-- ReplayDiverged      the environment answers a repeated turn differently
|-- EpisodesFailed          every episode of a batch failed, so there is nothing to learn from (RuntimeError)
|-- LedgerError             the record on disk cannot be read or written (OSError)
|   `-- DifferentRunError   a ledger label holds episodes that were played differently (also EvaluationError)
|-- RecipeError             a recipe with a wrong key or value (ValueError)
|-- EvaluationError         numbers or records that cannot be measured or compared (ValueError)
|-- SearchError             a search over turns that cannot be run, or cannot value its nodes (ValueError)
|-- CreditError             a group or estimator option that makes no sense (ValueError)
|   |-- ShapeError          arrays whose axes disagree
|   `-- MissingSignalError  an estimator needs a signal that the group does not carry
`-- ConformanceError        a contract check failed, with every finding (AssertionError)
"""

from __future__ import annotations

import re

from agentgym.text import visible


class AgentGymError(Exception):
    """Base of all errors that agentgym raises on purpose."""


class ToolError(AgentGymError):
    """Raised by a tool for the agent to read: it becomes the call's result and the episode goes on."""


class ToolDefinitionError(AgentGymError, TypeError):
    """A function cannot become a tool."""


class UnknownNameError(AgentGymError, KeyError):
    """Nothing is registered under this name."""

    def __str__(self) -> str:  # KeyError would show the repr of the message
        return str(self.args[0]) if self.args else ""


class DuplicateNameError(AgentGymError, ValueError):
    """The name is already taken by something else."""


class RegistrationError(AgentGymError, TypeError):
    """The object registered under a name does not fit its kind."""


class MissingExtraError(AgentGymError, ImportError):
    """An optional dependency is not installed."""


class TaskError(AgentGymError, ValueError):
    """A task file, row or set that cannot be used."""


class SplitLeakError(TaskError):
    """Two splits of a task set share an id or the same content."""


class HeldOutError(TaskError, PermissionError):
    """A trainer asked for the held-out split."""


class RewardError(AgentGymError, ValueError):
    """A reward function returned something that is not a reward (NaN, infinity, not a number)."""


class _QuotingError(AgentGymError, RuntimeError):
    """An error whose message may quote a sandbox or a server; control characters in the message are made visible."""

    def __str__(self) -> str:
        return visible(super().__str__())


class JudgeError(_QuotingError):
    """A judge could not judge. The episode is marked as failed, stored, and not used for training."""


class SandboxError(_QuotingError):
    """The isolated machine failed; never the agent's code inside it."""


class SandboxDied(SandboxError, ConnectionError):
    """The sandbox ended or stopped answering."""


class HostOverloaded(SandboxError):
    """The host kept code from running for many times its time limit: it has too much to do, or was stopped."""


class SandboxExhausted(SandboxDied, ToolError):
    """The code in a sandbox ended the sandbox: the agent's doing, not an infrastructure failure.

    The code used up the memory, or left behind something that takes the kernel too long to remove.
    """


class FilesNotCaptured(ToolError):
    """The files that the agent left cannot be captured; the message says which and why."""


class SandboxUnavailable(SandboxError):
    """No sandbox can be made; the message says what is exhausted or missing."""

    @property
    def options(self) -> list[str]:
        """The options of a command that would help, as the message names them: ["--backend docker"], for example."""
        return re.findall(r"add (--backend [\w-]+(?: --accept-weaker [\w,]+)?)", str(self))


class LimitUnenforceable(SandboxError):
    """This machine cannot enforce a limit that the spec asks for."""

    @property
    def limits(self) -> str:
        """The limits to accept, as the message names them: "memory,cpu"; empty if it names none."""
        named = re.search(r"--accept-weaker (\S+)", str(self))
        return named[1] if named else ""


class EnvironmentServerError(_QuotingError):
    """The server that runs environments, or the connection to it, failed; never the agent."""


class ServerUnreachable(EnvironmentServerError, ConnectionError):
    """The server does not answer, or ended during a request, which may have been executed."""


class LeaseLost(EnvironmentServerError, ConnectionError):
    """The server has abandoned the episode, because its lease was not renewed or because the server was restarted."""


class ServerFull(EnvironmentServerError):
    """The server had no room for another episode in time."""


class AccessRefused(EnvironmentServerError, PermissionError):
    """The server does not accept the token, or does not allow the request."""


class VersionMismatch(EnvironmentServerError):
    """The server speaks another protocol, or its environment is not the one that the run began with."""


class RemoteEnvironmentError(_QuotingError):
    """The code of an environment on a server raised an error that agentgym does not know; the message says which."""


class ClusterError(_QuotingError):
    """A cluster cannot be reached or used, or its last node is gone; the message says what to do."""


class NodeLost(ClusterError, ConnectionError):
    """A node is gone or silent. Its last request may have been executed."""


class NodeFailed(ClusterError):
    """An episode failed because of a fault on its node, such as its disk or its sandboxes."""


class PolicyError(AgentGymError, RuntimeError):
    """The model or its server failed."""


class RequestsRefused(PolicyError):
    """The gateway cannot do what an agent's program asks for. Another try would be refused too."""


class ContextFull(PolicyError):
    """The conversation no longer fits the model's context window."""


class ScriptEnded(PolicyError):
    """A scripted policy was asked for a message but has none left."""


class PolicyLeft(PolicyError):
    """The external program that plays the agent has disconnected: the episode ends as it is, and is judged."""


class ReplayDiverged(PolicyError):
    """A saved trajectory cannot be continued: its environment answers the same turns differently."""


class EpisodesFailed(AgentGymError, RuntimeError):
    """Every episode of a batch failed by no fault of the agent; the message has the causes."""


class LedgerError(AgentGymError, OSError):
    """The record on disk cannot be read or written."""


class RecipeError(AgentGymError, ValueError):
    """A recipe with a wrong key or value."""


class EvaluationError(AgentGymError, ValueError):
    """Numbers or records that cannot be measured or compared."""


class DifferentRunError(LedgerError, EvaluationError):
    """A ledger label already holds episodes with a different policy, reward, sampling or task."""


class SearchError(AgentGymError, ValueError):
    """A search over turns that cannot be run as requested, or cannot value its nodes."""


class CreditError(AgentGymError, ValueError):
    """A group or an estimator option that makes no sense."""


class ShapeError(CreditError):
    """Arrays whose axes disagree."""


class MissingSignalError(CreditError):
    """An estimator needs a signal that the group does not carry."""


class ConformanceError(AgentGymError, AssertionError):
    """A contract check failed; `findings` lists every breach found."""

    def __init__(self, subject: str, findings: list[str]) -> None:
        self.subject, self.findings = subject, findings
        lines = "\n".join(f"  - {finding}" for finding in findings)
        super().__init__(
            f"{subject} breaks its contract in {len(findings)} place{'s' * (len(findings) != 1)}:\n{lines}"
        )
