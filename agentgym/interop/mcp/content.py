"""Conversion of MCP tool results to our content, and of our results to MCP."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agentgym.errors import ToolError
from agentgym.messages import Content, ImagePart, Part, Result, TextPart


def content_from_mcp(result: Mapping[str, Any]) -> Content:
    """Return text and images of a `CallToolResult`; replace each other medium by a line that names it.

    Raises: ToolError with the text if the server marks it as an error, or requests input that we do not give.
    """
    if result.get("resultType") == "input_required":
        raise ToolError(
            "The server asks for input from a model or a person before it continues, which is not available here."
        )
    blocks = result.get("content")
    parts = [_part(block) for block in (blocks if isinstance(blocks, list) else []) if isinstance(block, Mapping)]
    if not parts and result.get("structuredContent") is not None:
        parts = [TextPart(json.dumps(result["structuredContent"], ensure_ascii=False))]
    text = "\n".join(part.text for part in parts if isinstance(part, TextPart))
    if result.get("isError"):
        raise ToolError(text or "The server reports an error without a text.")
    return text if all(isinstance(part, TextPart) for part in parts) else tuple(parts)


def result_to_mcp(result: Result) -> dict[str, Any]:
    """Return a result as a `CallToolResult`."""
    return {"content": content_to_mcp(result.content), "isError": not result.ok}


def content_to_mcp(content: Content) -> list[dict[str, Any]]:
    """Return content as MCP blocks."""
    parts = [TextPart(content)] if isinstance(content, str) else content
    return [
        {"type": "text", "text": part.text}
        if isinstance(part, TextPart)
        else {"type": "image", "data": part.data, "mimeType": part.media_type}
        for part in parts
    ]


def text_of(content: Content) -> str:
    """Return the text of content, without its images."""
    if isinstance(content, str):
        return content
    return "\n".join(part.text for part in content if isinstance(part, TextPart))


def _part(block: Mapping[str, Any]) -> Part:
    kind = block.get("type")
    if kind == "text":
        return TextPart(str(block.get("text", "")))
    if kind == "image" and isinstance(block.get("data"), str):
        return ImagePart(block["data"], str(block.get("mimeType") or "image/png"))
    if kind == "resource" and isinstance(resource := block.get("resource"), Mapping):
        if isinstance(text := resource.get("text"), str):
            return TextPart(f"{resource.get('uri')}:\n{text}")
        return TextPart(f"[{resource.get('uri')}, {resource.get('mimeType') or 'bytes'}]")
    if kind == "resource_link":
        return TextPart(f"[{block.get('name') or 'resource'}: {block.get('uri')}]")
    return TextPart(f"[{kind}, {block.get('mimeType') or 'unknown'}]")
