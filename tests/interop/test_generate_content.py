"""Google's form of requests: names, schemas, calls without ids, results, and refusals."""

from __future__ import annotations

from typing import Any

import pytest
from gateway_clients import through_gateway
from scripted_episodes import say

from agentgym.interop.gateway.generate_content import GenerateContent, schema_of
from agentgym.messages import ImagePart, TextPart

pytest.importorskip("starlette")

CONTENTS: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": "Count."}]}]


def test_a_schema_in_capitals_is_json_schema():
    given = {
        "type": "OBJECT",
        "properties": {
            "type": {"type": "STRING", "nullable": True},
            "many": {"type": "ARRAY", "items": {"type": "INTEGER"}, "minItems": "1"},
        },
        "required": ["type"],
        "propertyOrdering": ["type", "many"],
    }
    assert schema_of(given) == {
        "type": "object",
        "properties": {
            "type": {"type": ["string", "null"]},
            "many": {"type": "array", "items": {"type": "integer"}, "minItems": 1},
        },
        "required": ["type"],
    }


def test_tools_of_the_provider_are_left_out_and_names_are_read_in_both_cases():
    tools = [{"google_search": {}}, {"function_declarations": [{"name": "look", "parameters": {"type": "OBJECT"}}]}]
    body = {"system_instruction": {"parts": [{"text": "s"}]}, "contents": CONTENTS, "tools": tools}
    chat = GenerateContent().read(body)
    assert [(tool["function"]["name"], tool["function"]["parameters"]) for tool in chat.tools] == [
        ("look", {"type": "object"})
    ]
    assert [message.role for message in chat.messages] == ["system", "user"]


def test_a_result_is_its_text_or_its_json_and_its_images():
    def result(**response: Any):
        called = {"role": "model", "parts": [{"functionCall": {"name": "f"}}]}
        answered = {"role": "user", "parts": [{"functionResponse": {"name": "f", **response}}]}
        return GenerateContent().read({"contents": [*CONTENTS, called, answered]}).messages[-1].content

    assert result(response={"result": "two"}) == "two"
    assert result(response={"count": 2}) == '{"count": 2}'
    image = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
    assert result(response={"output": "seen"}, parts=[image]) == (TextPart("seen"), ImagePart("AAAA"))


async def test_a_client_that_drops_the_ids_of_calls_continues_its_row():
    script = [say(("add", {"amount": 1}), ("add", {"amount": 1})), say(("add", {"amount": 1})), say("submit")]
    seen: list[int] = []

    async def client(http, episode):
        contents = [*CONTENTS]
        tools = [{"functionDeclarations": [{"name": name} for name in ("add", "submit")]}]
        for _ in script:
            answer = await http.post("/v1beta/models/m:generateContent", json={"contents": contents, "tools": tools})
            [candidate] = answer.raise_for_status().json()["candidates"]
            results = []
            for part in candidate["content"]["parts"]:
                call = part["functionCall"]
                del call["id"]
                result = (await http.post(f"/episode/tools/{call['name']}", json=call["args"])).json()
                seen.append(call["args"].get("amount", 0))
                results.append({"functionResponse": {"name": call["name"], "response": {"output": result["text"]}}})
            contents += [candidate["content"], {"role": "user", "parts": results}]

    [trajectory] = await through_gateway(script, client, target=3)
    assert (trajectory.error, trajectory.success) == (None, 1.0)
    assert not trajectory.further_rows
    assert seen == [1, 1, 1, 0]
    assert [result.content for turn in trajectory.turns for result in turn.results] == ["1", "2", "3", "submitted 3"]


async def test_tokens_are_counted_models_described_and_refusals_said_in_googles_form():
    seen: dict[str, Any] = {}

    async def client(http, episode):
        counted = await http.post("/v1beta/models/m:countTokens", json={"contents": CONTENTS})
        seen["counted"] = counted.json()["totalTokens"]
        seen["model"] = (await http.get("/v1beta/models/m")).json()["name"]
        seen["models"] = len((await http.get("/v1beta/models")).json()["models"])
        unknown = await http.post("/v1beta/models/m:embedContent", json={"contents": CONTENTS})
        seen["unknown"] = unknown.status_code, unknown.json()["error"]["status"]
        wrong = await http.post("/v1beta/models/m:generateContent", json={"contents": 3})
        seen["wrong"] = wrong.status_code, wrong.json()["error"]
        answer = await http.post("/v1/models/m:generateContent", json={"contents": CONTENTS})
        seen["read"] = answer.raise_for_status().json()["usageMetadata"]["promptTokenCount"]
        await http.post("/episode/end", json={})

    [trajectory] = await through_gateway([say(text="Hm.")], client)
    assert trajectory.error is None
    assert seen["counted"] == seen["read"] > 0
    assert (seen["model"], seen["models"]) == ("models/m", 1)
    assert seen["unknown"] == (404, "NOT_FOUND")
    message = "contents must be a list, not 3."
    assert seen["wrong"] == (400, {"code": 400, "message": message, "status": "INVALID_ARGUMENT"})
