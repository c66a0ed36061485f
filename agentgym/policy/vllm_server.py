"""A private vLLM server, on a socket that no other user can reach."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from agentgym.errors import PolicyError
from agentgym.policy.http import JsonEndpoint, RetryPolicy
from agentgym.policy.logit_hooks.served_masks import PLUGIN

SERVED_NAME = "policy"
"""The model name used by servers started here."""
_SETTINGS = {
    "VLLM_SERVER_DEV_MODE": "1",  # allows replacing the weights
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
    "VLLM_NO_USAGE_STATS": "1",
}
_CPU_DEFAULTS = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
_ENDS_WITH_ITS_PARENT = (
    "import ctypes, os, sys; prctl = getattr(ctypes.CDLL(None), 'prctl', None); prctl and prctl(1, 15); "
    "os.execv(sys.executable, [sys.executable, '-m', 'vllm.entrypoints.openai.api_server', *sys.argv[1:]])"
)


class VllmServer:
    """A process that serves a model by vLLM until `close`, or until the process that started it ends.

    Anyone who reaches the server can replace its weights, so it listens on a socket in a folder private to this user.

    Attributes:
        address: for VllmPolicy and JsonEndpoint.
    """

    def __init__(self, *, log: Path, python: str | Path | None = None, gpus: str | None = None) -> None:
        """Prepare a server without starting it; call `start` before the first request.

        Args:
            log: a file for the server's output.
            python: the interpreter of an environment that has vLLM; by default this one.
            gpus: the GPUs that the server may use, for example "0,1"; by default all.
        """
        self._folder = Path(tempfile.mkdtemp(prefix="agentgym-vllm-"))
        self._socket = self._folder / "server.sock"
        self.address, self._log = f"unix:{self._socket}", log.resolve()
        self._python, self._gpus = os.path.abspath(python or sys.executable), gpus
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_started(self) -> bool:
        return self._process is not None

    def start(self, model: str | Path, options: Sequence[str] = (), *, applies_masks: bool = False) -> None:
        """Start serving a model; call `wait_until_ready` before the first request.

        Args:
            model: a folder or the name of a hub model.
            options: further arguments of `vllm serve`.
            applies_masks: whether the server can apply the masks of logit hooks.
        Raises: PolicyError if the interpreter cannot be run.
        """
        command = [
            *(self._python, "-c", _ENDS_WITH_ITS_PARENT),
            *("--model", str(model), "--served-model-name", SERVED_NAME, "--uds", str(self._socket)),
            *("--logprobs-mode", "processed_logprobs"),
            *(("--logits-processors", PLUGIN) if applies_masks else ()),
            *options,
        ]
        environment = _CPU_DEFAULTS | os.environ | _SETTINGS
        if applies_masks:
            environment |= {"PYTHONPATH": self._import_path(), "VLLM_USE_V2_MODEL_RUNNER": "0"}
        if self._gpus is not None:
            environment["CUDA_VISIBLE_DEVICES"] = self._gpus
        try:
            with self._log.open("w") as output:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    cwd=self._folder,  # in the current directory, a folder named vllm would hide the package
                    start_new_session=True,
                )
        except OSError as error:
            raise PolicyError(f"vLLM cannot be started with {self._python}: {error.strerror}.") from error

    def _import_path(self) -> str:
        """Return a PYTHONPATH with this package but not the packages beside it, whose versions vLLM may not accept."""
        folder = self._folder / "import"
        folder.mkdir(exist_ok=True)
        (folder / "agentgym").symlink_to(Path(__file__).resolve().parents[1])
        return os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))

    async def wait_until_ready(self, timeout_s: float) -> None:
        """Wait until the server answers requests.

        Raises: PolicyError with the end of the log if the server ends, or is not ready in time; it is then closed.
        """
        process = self._process
        assert process is not None, "it was started"
        endpoint = JsonEndpoint(self.address, retry_policy=RetryPolicy(attempts=1, attempt_s=5.0))
        now = asyncio.get_running_loop().time
        ends = now() + timeout_s
        try:
            while process.poll() is None and now() < ends:
                try:
                    await endpoint.get("/v1/models")
                except PolicyError:
                    await asyncio.sleep(0.5)
                else:
                    return
        finally:
            await endpoint.close()
        code = process.poll()
        what = f"was not ready within {timeout_s:g} s" if code is None else _end(code)
        await asyncio.to_thread(self.close)
        raise PolicyError(f"The vLLM server {what}. Its log, {self._log}, ends with:\n{self._last_lines()}")

    def raise_if_ended(self) -> None:
        """Raise PolicyError in one line, with the path of the log, if the process was started and has ended."""
        if self._process is not None and (code := self._process.poll()) is not None:
            raise PolicyError(f"The vLLM server {_end(code)}. Its log, {self._log}, ends with: {self._last_lines(1)}")

    def close(self) -> None:
        """End the server and its child processes, after 30 s by force."""
        process, self._process = self._process, None
        try:
            if process is not None and process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                try:
                    process.wait(30)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _last_lines(self, count: int = 12) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(line[:300] for line in lines[-count:])


def _end(code: int) -> str:
    """Describe how a process ended, by its exit status."""
    return f"ended with status {code}" if code >= 0 else f"was killed by {signal.Signals(-code).name}"
