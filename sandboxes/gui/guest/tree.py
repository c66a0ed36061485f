"""The accessibility tree as lines of text, each with the number by which the agent acts on it."""

from __future__ import annotations

from typing import Any

SILENT = {
    "none", "generic", "RootWebArea", "InlineTextBox", "LineBreak", "paragraph", "LayoutTable", "LayoutTableRow",
    "LayoutTableCell", "rowgroup", "Section", "ListMarker", "LabelText", "Legend", "SvgRoot", "Iframe", "MenuListPopup",
    "group", "list", "listitem", "DescriptionList", "form", "main", "banner", "contentinfo", "navigation",
    "strong", "emphasis", "mark", "time", "code", "superscript", "subscript",
}  # fmt: skip
"""Roles that say nothing by themselves: what is in them is shown, and they only if they have a name of their own."""
NAMED_BY_CONTENT = {
    "link", "button", "heading", "option", "tab", "cell", "gridcell", "columnheader", "rowheader", "menuitem",
    "checkbox", "radio", "switch", "treeitem", "row", "caption", "listitem", "LabelText", "Legend",
}  # fmt: skip
ACTED_ON = {
    "link", "button", "textbox", "searchbox", "combobox", "listbox", "option", "checkbox", "radio", "switch", "slider",
    "spinbutton", "tab", "menuitem", "treeitem", "Date", "Time", "ColorWell", "DateTime", "InputTime",
}  # fmt: skip
"""Roles that a set-of-marks picture marks."""
_FLAGS = ("focused", "disabled", "selected", "expanded", "required", "modal", "multiselectable")
_MAX_NAME, _MAX_OPTIONS = 300, 40
_CELLS = ("cell", "gridcell", "columnheader", "rowheader")
_LABELLED = ACTED_ON - {"link", "button", "option", "tab", "menuitem", "treeitem"}
Node = dict[str, Any]


def shown(nodes: list[Node]) -> list[tuple[int, int | None, str, str, str]]:
    """What of an accessibility tree is shown.

    Args:
        nodes: as `Accessibility.getFullAXTree` gives them.
    Returns: tuples of depth, backend node id (None if it has none), role, the text of the line, and the name by which
        the agent may call the element: as much of its own as is shown, '' for text.
    """
    by_id = {node["nodeId"]: node for node in nodes}
    lines = []
    waiting = [(nodes[0], 0, "")] if nodes else []
    while waiting:
        node, depth, said = waiting.pop()
        role, name = _value(node, "role"), " ".join(_value(node, "name").split())
        children = [by_id[child] for child in node.get("childIds", ()) if child in by_id]
        below = depth
        if not node.get("ignored") and role not in ("InlineTextBox", "LineBreak"):
            if role == "StaticText":
                if name and name not in said:
                    lines.append((depth, node.get("backendDOMNodeId"), "text", f'text "{name[:_MAX_NAME]}"', ""))
                continue
            speaks = role not in SILENT or (name and role not in ("RootWebArea", "none") and not _only(name, children))
            if role in _CELLS and (not name or _holds_more(children)):
                speaks = False
            if speaks and not (role == "row" and not name):
                line = _line(node, role, name)
                if role == "combobox" and (options := _options(node, by_id)):
                    line += f" options: {' | '.join(options)}"
                lines.append((depth, node.get("backendDOMNodeId"), role, line, name[:_MAX_NAME]))
                below = depth + 1
                said = name if role in NAMED_BY_CONTENT else said
                if role in ("textbox", "searchbox", "spinbutton", "combobox"):
                    children = []  # what it holds is its value, or told in its line
        waiting += [(child, below, said) for child in reversed(children)]
    return [line for place, line in enumerate(lines) if not _is_label(place, lines)]


def _is_label(place: int, lines: list[tuple[int, int | None, str, str, str]]) -> bool:
    """Whether a line is the text that names the field before or after it."""
    _, _, role, text, _ = lines[place]
    if role != "text":
        return False
    for beside in lines[max(place - 1, 0) : place] + lines[place + 1 : place + 2]:
        if beside[2] in _LABELLED and beside[3][len(beside[2]) + 1 :].startswith(text[5:]):
            return True
    return False


def _holds_more(children: list[Node]) -> bool:
    """Whether anything but text is in a cell: that is shown, with the same words."""
    return any(_value(child, "role") != "StaticText" for child in children)


def _options(node: Node, by_id: dict[str, Node]) -> list[str]:
    """What a list that folds out offers: its options have no place on the page."""
    found: list[str] = []
    waiting = [node]
    while waiting and len(found) < _MAX_OPTIONS:
        one = waiting.pop()
        if _value(one, "role") == "option":
            found.append(_value(one, "name")[:60])
        waiting += [by_id[child] for child in reversed(one.get("childIds", ())) if child in by_id]
    return found


def _only(name: str, children: list[Node]) -> bool:
    """Whether a name is nothing but the text of the children, who are shown anyway."""
    return "".join(_value(child, "name") for child in children).split() == name.split()


def _line(node: Node, role: str, name: str) -> str:
    words = [role]
    if name:
        words.append(f'"{name[:_MAX_NAME]}"')
    value = node.get("value", {}).get("value")
    if value not in (None, "", name):
        words.append(f'value="{str(value)[:_MAX_NAME]}"')
    for entry in node.get("properties", ()):
        kind, held = entry["name"], entry["value"].get("value")
        if kind in ("checked", "pressed") and held not in (None, "false", False):
            words.append(kind if held in (True, "true") else f"{kind}={held}")
        elif kind in _FLAGS and held is True:
            words.append(kind)
        elif kind == "level" and role == "heading":
            words[0] = f"{role}{held}"
    return " ".join(words)


def _value(node: Node, key: str) -> str:
    return str(node.get(key, {}).get("value", "") or "")
