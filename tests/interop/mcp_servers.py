"""MCP servers for tests. `python mcp_servers.py MODE`: what a server may do wrong; without a mode a good one.

The handshake era alone, standard library alone: it runs in a sandbox.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
mode = sys.argv[1] if len(sys.argv) > 1 else "good"
tools = [{"name": "echo", "description": "Say it again.", "inputSchema": TEXT}]
texts = []


def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def text_result(text, **more):
    return {"content": [{"type": "text", "text": text}], **more}


def called(number, arguments):
    texts.append(arguments.get("text"))
    if mode == "ends":
        print("out of luck", file=sys.stderr)
        sys.exit(3)
    if mode == "is silent":
        return
    if mode == "never stops":
        while True:
            send(method="notifications/message", params={"level": "info", "data": "x" * 1000})
    if mode == "writes a line without an end":
        while True:
            sys.stdout.write("x" * 65536)
    if mode == "kills what connects it":
        os.kill(os.getppid(), signal.SIGKILL)
    if mode == "breaks its tools":
        tools.append({"name": "more", "description": "There is more.", "inputSchema": {"properties": [1]}})
        send(method="notifications/tools/list_changed")
    if mode == "asks for a model":
        send(id="s1", method="sampling/createMessage", params={"messages": [], "maxTokens": 9})
        refusal = json.loads(sys.stdin.readline())
        send(id=number, result=text_result(refusal["error"]["message"]))
        return
    if mode == "grows":
        tools.append({"name": "more", "description": "There is more.", "inputSchema": {"type": "object"}})
        send(method="notifications/tools/list_changed")
    if mode == "shows":
        blocks = [
            {"type": "text", "text": "a picture:"},
            {"type": "image", "data": "aGk=", "mimeType": "image/png"},
            {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}},
            {"type": "resource_link", "uri": "file:///b", "name": "b"},
        ]
        send(id=number, result={"content": blocks})
        return
    send(id=number, result=text_result(f"{arguments['text']} {len(texts)}"))


if mode == "does not start":
    sys.exit("no such library")
if mode == "lies about its arguments":
    tools[0]["inputSchema"] = {"type": "object", "properties": ["text"]}
if mode == "has an answer of its own":
    tools.append({"name": "answer", "description": "Answer.", "inputSchema": TEXT})
if mode == "never greets":
    time.sleep(600)
if mode == "chats":
    print("Starting up ...")
for line in sys.stdin:
    request = json.loads(line)
    number, method = request.get("id"), request["method"]
    if method == "initialize":
        about = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "t"}}
        send(id=number, result={**about, "instructions": "Speak up."})
    elif method == "tools/list":
        start = int(request["params"].get("cursor", 0))  # a page each
        more = {"nextCursor": str(start + 1)} if start + 1 < len(tools) else {}
        send(id=number, result={"tools": tools[start : start + 1], **more})
    elif method == "tools/call":
        called(number, request["params"]["arguments"])
    elif number is not None:
        send(id=number, error={"code": -32601, "message": "Method not found"})
