"""Renders the accessibility tree as lines of text."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

SILENT = {
    "none",
    "generic",
    "RootWebArea",
    "InlineTextBox",
    "LineBreak",
    "paragraph",
    "LayoutTable",
    "LayoutTableRow",
    "LayoutTableCell",
    "rowgroup",
    "Section",
    "ListMarker",
    "LabelText",
    "Legend",
    "SvgRoot",
    "Iframe",
    "MenuListPopup",
    "group",
    "list",
    "listitem",
    "DescriptionList",
    "form",
    "main",
    "banner",
    "contentinfo",
    "navigation",
    "strong",
    "emphasis",
    "mark",
    "time",
    "code",
    "superscript",
    "subscript",
}
"""Roles without information: their children are shown, they themselves only if they have a separate name."""
NAMED_BY_CONTENT = {
    "link",
    "button",
    "heading",
    "option",
    "tab",
    "cell",
    "gridcell",
    "columnheader",
    "rowheader",
    "menuitem",
    "checkbox",
    "radio",
    "switch",
    "treeitem",
    "row",
    "caption",
    "listitem",
    "LabelText",
    "Legend",
}
ACTED_ON = {
    "link",
    "button",
    "textbox",
    "searchbox",
    "combobox",
    "listbox",
    "option",
    "checkbox",
    "radio",
    "switch",
    "slider",
    "spinbutton",
    "tab",
    "menuitem",
    "treeitem",
    "Date",
    "Time",
    "ColorWell",
    "DateTime",
    "InputTime",
}
"""Interactive roles: those that a set-of-marks screenshot marks."""
_STATES = ("focused", "disabled", "selected", "expanded", "required", "modal", "multiselectable")
MAX_LINE = 2_000
"""The largest number of characters shown of a line."""
_MAX_NAME, _MAX_OPTIONS = 300, 40
_CELLS = ("cell", "gridcell", "columnheader", "rowheader")
_LABELLED = ACTED_ON - {"link", "button", "option", "tab", "menuitem", "treeitem"}
Node = dict[str, Any]
TreeLine = tuple[int, int | None, str, str, str]  # depth, backend node id, role, text, name


def visible_lines(nodes: list[Node], inside: Mapping[int, list[TreeLine]] = MappingProxyType({})) -> list[TreeLine]:
    """Return the lines of an accessibility tree that are shown.

    Args:
        nodes: as `Accessibility.getFullAXTree` gives them; the first is the root.
        inside: the lines of inner frames, by the backend node id of the element that holds the frame.
    Returns: tuples of depth, backend node id (None if it has none), role, the text of the line, and the name by which
        the agent may refer to the element: the shown part of its name, '' for text.
    """
    by_id = {node["nodeId"]: node for node in nodes}
    lines: list[TreeLine] = []
    pending = [(nodes[0], 0, "")] if nodes else []
    while pending:
        node, depth, ancestor_name = pending.pop()
        role, name = _value(node, "role"), " ".join(_value(node, "name").split())
        children = [by_id[child] for child in node.get("childIds", ()) if child in by_id]
        child_depth = depth
        if not node.get("ignored") and role not in ("InlineTextBox", "LineBreak"):
            if role == "StaticText":
                if name and name not in ancestor_name:
                    lines.append((depth, node.get("backendDOMNodeId"), "text", f'text "{name[:MAX_LINE]}"', ""))
                continue
            is_shown = role not in SILENT or (
                name and role not in ("RootWebArea", "none") and not _repeats_children(name, children)
            )
            if role in _CELLS and (not name or _holds_more(children)):
                is_shown = False
            if is_shown and not (role == "row" and not name):
                line = _line(node, role, name)
                if role == "combobox" and (options := _options(node, by_id)):
                    line += f" options: {' | '.join(options)}"
                lines.append((depth, node.get("backendDOMNodeId"), role, line, name[:_MAX_NAME]))
                child_depth = depth + 1
                ancestor_name = name if role in NAMED_BY_CONTENT else ancestor_name
                if role in ("textbox", "searchbox", "spinbutton", "combobox"):
                    children = []  # the content is already shown, as the value or as part of the line
        if (frame_lines := inside.get(node.get("backendDOMNodeId", 0))) is not None:
            lines += [(child_depth + line[0], *line[1:]) for line in frame_lines]
            continue
        pending += [(child, child_depth, ancestor_name) for child in reversed(children)]
    return [line for index, line in enumerate(lines) if not _is_label(index, lines)]


def _is_label(index: int, lines: list[TreeLine]) -> bool:
    """Return whether a line is only the label of the field before or after it."""
    _, _, role, text, _ = lines[index]
    if role != "text":
        return False
    for neighbour in lines[max(index - 1, 0) : index] + lines[index + 1 : index + 2]:
        if neighbour[2] in _LABELLED and neighbour[3][len(neighbour[2]) + 1 :].startswith(text[5:]):
            return True
    return False


def _holds_more(children: list[Node]) -> bool:
    """Return whether a cell contains more than text. If so, the lines of its content repeat the cell's words."""
    return any(_value(child, "role") != "StaticText" for child in children)


def _options(node: Node, by_id: dict[str, Node]) -> list[str]:
    """Return the options of a drop-down list, which are not laid out on the page."""
    names: list[str] = []
    pending = [node]
    while pending and len(names) < _MAX_OPTIONS:
        option = pending.pop()
        if _value(option, "role") == "option":
            names.append(_value(option, "name")[:60])
        pending += [by_id[child] for child in reversed(option.get("childIds", ())) if child in by_id]
    return names


def _repeats_children(name: str, children: list[Node]) -> bool:
    """Return whether a name is only the text of the children, which are shown anyway."""
    return "".join(_value(child, "name") for child in children).split() == name.split()


def _line(node: Node, role: str, name: str) -> str:
    words = [role]
    if name:
        words.append(f'"{name[:_MAX_NAME]}"')
    value = node.get("value", {}).get("value")
    if value not in (None, "", name):
        words.append(f'value="{str(value)[:_MAX_NAME]}"')
    for entry in node.get("properties", ()):
        kind, state = entry["name"], entry["value"].get("value")
        if kind in ("checked", "pressed") and state not in (None, "false", False):
            words.append(kind if state in (True, "true") else f"{kind}={state}")
        elif kind in _STATES and state is True:
            words.append(kind)
        elif kind == "level" and role == "heading":
            words[0] = f"{role}{state}"
    return " ".join(words)


def _value(node: Node, key: str) -> str:
    return str(node.get(key, {}).get("value", "") or "")
