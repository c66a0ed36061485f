"""The names that a backend needs if its sandboxes are made on other hosts: `from agentgym.cluster import hosts`.

A backend derives from `HostedBackend`, and reaches the `SandboxHost` of each host through a `SandboxHostLink`.
"""

from agentgym import errors as errors
from agentgym.cluster.episode_worker import fault_of as fault_of
from agentgym.cluster.host_link import HostLink as HostLink
from agentgym.cluster.host_link import HostNode as HostNode
from agentgym.cluster.host_link import in_short as in_short
from agentgym.cluster.hosted_backend import LEASE_S as LEASE_S
from agentgym.cluster.hosted_backend import HostedBackend as HostedBackend
from agentgym.cluster.hosted_sandbox import SandboxHostLink as SandboxHostLink
from agentgym.cluster.sandbox_host import SandboxHost as SandboxHost
from agentgym.errors import ClusterError as ClusterError
from agentgym.errors import NodeFailed as NodeFailed
from agentgym.errors import NodeLost as NodeLost
from agentgym.sandbox.contract import Connection as Connection
from agentgym.sandbox.contract import Layer as Layer
from agentgym.sandbox.owner import Owner as Owner
