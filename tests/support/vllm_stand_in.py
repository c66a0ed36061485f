"""A process that speaks vLLM's dialect over HTTP, and may kill or stop itself while it is used.

    python -m vllm_stand_in '{"log": "/tmp/log", "ends_after": 5, "signal": 9}'

It samples random tokens from no model at all, and notes each request in its log. It prints its address. The setting
"prompt_logprobs" holds what it says of the tokens of a prompt but the first; without it each has -5. With "marks" its
first two tokens are the number of the weights, or of the adapter, when a request came and "takes_s" later.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

WEIGHTS = ("/pause", "/collective_rpc", "/reset_prefix_cache", "/resume")
ADAPTERS = ("/v1/load_lora_adapter", "/v1/unload_lora_adapter")
VOCABULARY = 300


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    lock = threading.Lock()
    settings: Mapping[str, Any] = {}
    completions = 0
    reloads = 0
    adapters: list[str] = []
    unloaded: set[str] = set()

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("content-length") or 0))
        body = json.loads(content) if content else {}
        path = self.path.partition("?")[0]
        with self.lock, open(self.settings["log"], "a") as log:
            log.write(f"{path} {body.get('kwargs', {}).get('weights_path', '')}\n")
        if path == "/v1/completions" and "seed" in body:
            self._end_when_due()
        data = json.dumps(self._answer(path, body)).encode()
        self.send_response(404 if body.get("model") in self.unloaded else 200)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST

    def _end_when_due(self) -> None:
        with self.lock:
            Handler.completions += 1
            if Handler.completions == self.settings.get("ends_after"):
                os.kill(os.getpid(), self.settings["signal"])

    def _answer(self, path: str, body: dict[str, Any]) -> Any:
        if path == "/version":
            return {"version": "0.32.0"}
        if path == "/openapi.json":
            return {"paths": {path: {} for path in (*WEIGHTS, *ADAPTERS)}}
        if path == "/v1/models":
            return {"data": [{"id": "m", "max_model_len": 4096}]}
        if path == "/collective_rpc":
            assert Path(body["kwargs"]["weights_path"], "model.safetensors").is_file()
            Handler.reloads += 1
        if path == "/v1/load_lora_adapter":
            self.adapters.append(body["lora_name"])
        if path == "/v1/unload_lora_adapter":
            self.unloaded.add(body["lora_name"])
        if path != "/v1/completions":
            return {}
        if "prompt_logprobs" in body:
            return {"choices": [{"prompt_logprobs": self._scores(body["prompt"])}]}
        if "seed" not in body:  # asked before a run
            return {"choices": [{"logprobs": {"top_logprobs": [{"a": -1 / body["temperature"]}]}}]}
        chance = random.Random(body["seed"])
        ids = [chance.randrange(VOCABULARY) for _ in range(min(3, body["max_tokens"]))]
        if self.settings.get("marks"):
            ids[:2] = [self._weights(body["model"]), self._weights(body["model"], self.settings["takes_s"])]
        logprobs = {"token_logprobs": [-5.0] * len(ids)}
        return {"choices": [{"token_ids": ids, "logprobs": logprobs, "finish_reason": "stop"}]}

    def _weights(self, model: str, after_s: float = 0.0) -> int:
        time.sleep(after_s)
        return self.adapters.index(model) + 1 if model in self.adapters else self.reloads

    def _scores(self, ids: list[int]) -> list[dict[str, Any] | None]:
        """As vLLM gives them: nothing of the first token, then a row for each."""
        logprobs = self.settings.get("prompt_logprobs") or [-5.0] * (len(ids) - 1)
        return [None, *({str(token): {"logprob": value}} for token, value in zip(ids[1:], logprobs, strict=True))]

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def vllm_stand_ins(*settings: Mapping[str, Any]) -> Iterator[list[str]]:
    """Servers until the block ends. Yields their addresses."""
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "vllm_stand_in", json.dumps(chosen)],
            env=os.environ | {"PYTHONPATH": path},
            stdout=subprocess.PIPE,
            text=True,
        )
        for chosen in settings
    ]
    try:
        yield [process.stdout.readline().strip() for process in started if process.stdout]
    finally:
        for process in started:
            process.kill()  # also one that is stopped
            process.communicate()


if __name__ == "__main__":
    Handler.settings = json.loads(sys.argv[1])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
