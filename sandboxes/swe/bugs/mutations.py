"""Small bugs for Python sources: one place changes, and everything else stays the same byte for byte.

Each mutation replaces a piece of text, found on the syntax tree. Its kind names the fault:

operator, boundary, constant, slice   another sign, comparison, number or bound
branch, loop                          a condition negated, `break` in place of `continue`
argument, keyword                     two arguments swapped, a keyword argument left out
call, state, return                   a call or an assignment to an attribute left out, a result lost
handling, exception                   a check or an `except` left out, another type of exception raised
feature                               a whole branch left out
removed                               a whole function's body left out
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

KINDS = (
    *("operator", "boundary", "constant", "slice", "branch", "loop", "argument", "keyword", "call", "state", "return"),
    *("handling", "exception", "feature", "removed"),
)
ARITHMETIC = {ast.Add: "-", ast.Sub: "+", ast.Mult: "//", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "//"}
SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%"}
COMPARED = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
}
BOUNDARIES = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
RAISED = {
    "ValueError": "TypeError",
    "TypeError": "ValueError",
    "KeyError": "IndexError",
    "IndexError": "KeyError",
    "AttributeError": "KeyError",
    "NotImplementedError": "RuntimeError",
}
Node = ast.expr | ast.stmt | ast.keyword | ast.ExceptHandler


@dataclass(frozen=True, slots=True)
class Mutation:
    """One bug: the bytes from `start` to `end` of a source become `text`.

    Attributes:
        kind: see the module. `line`: its line number, from 1.
        function: dotted name of the function or method it is in.
        scope: start and end of the outermost function or class around it, in bytes.
    """

    kind: str
    start: int
    end: int
    text: str
    line: int
    function: str
    scope: tuple[int, int]

    def apply(self, source: str) -> str:
        """Return the source with the bug."""
        return self._applied(source.encode("utf-8"), 0, None)

    def parses(self, source: str) -> bool:
        """Return whether the mutated source can be parsed. Only the enclosing function or class is read: reading the
        whole file for each mutation takes minutes for a file of some thousand lines."""
        begin, end = self.scope
        raw = source.encode("utf-8")
        begin = raw.rfind(b"\n", 0, begin) + 1
        around = self._applied(raw, begin, end)
        try:
            ast.parse("if 1:\n" + around if around[:1] in (" ", "\t") else around)
        except (SyntaxError, ValueError, RecursionError):
            return False
        return True

    def _applied(self, raw: bytes, begin: int, end: int | None) -> str:
        return (raw[begin : self.start] + self.text.encode("utf-8") + raw[self.end : end]).decode("utf-8")


def mutations(source: str) -> Iterator[Mutation]:
    """Return every bug that the rules find in a source, in order; there are none if the source is not Python. Check
    with `Mutation.parses` whether the mutated source is valid Python.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return
    yield from _Finder(source).mutations_of(tree)


class _Finder:
    """Walks a tree and tracks the name of the enclosing function."""

    def __init__(self, source: str) -> None:
        self._raw = source.encode("utf-8")
        self._starts = [0]
        for line in self._raw.split(b"\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)
        self._scope = (0, len(self._raw))

    def mutations_of(self, tree: ast.Module) -> Iterator[Mutation]:
        for part in tree.body:
            self._scope = (self._start(part), self._end(part))
            yield from self._visit(part, ())

    def _visit(self, node: ast.AST, inside: tuple[str, ...]) -> Iterator[Mutation]:
        if isinstance(node, ast.JoinedStr) or _is_docstring(node):
            return
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = (*inside, node.name)
            if isinstance(node, ast.FunctionDef) and (removed := self._removed(node, name)) is not None:
                yield removed
            if not isinstance(node, ast.ClassDef):
                yield from self._left_out(node, ".".join(name))
            defaults = () if isinstance(node, ast.ClassDef) else (*node.args.defaults, *node.args.kw_defaults)
            for part in (*defaults, *node.body):
                yield from self._visit(part, name) if part is not None else ()
            return
        if inside:  # a bug at a module's top level breaks the import or has no effect
            where = ".".join(inside)
            yield from self._of_expression(node, where)
            yield from self._of_statement(node, where)
            yield from self._left_out(node, where)
        for child in ast.iter_child_nodes(node):
            if child is not getattr(node, "annotation", None):
                yield from self._visit(child, inside)

    def _of_expression(self, node: ast.AST, where: str) -> Iterator[Mutation]:
        if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC and not _texts(node):
            yield self._between(
                "operator", node.left, node.right, SIGNS[type(node.op)], ARITHMETIC[type(node.op)], where
            )
        elif isinstance(node, ast.BoolOp) and len(node.values) == 2:
            sign, other = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            yield self._between("operator", node.values[0], node.values[1], sign, other, where)
        elif isinstance(node, ast.Compare) and len(node.ops) == 1:
            kind = "boundary" if isinstance(node.ops[0], BOUNDARIES) else "operator"
            sign, other = COMPARED[type(node.ops[0])]
            yield self._between(kind, node.left, node.comparators[0], sign, other, where)
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, bool):
                yield self._instead("constant", node, str(not node.value), where)
            elif isinstance(node.value, int) and abs(node.value) < 1000:
                yield self._instead("constant", node, str(node.value + 1), where)
        elif isinstance(node, ast.IfExp):
            yield self._instead("branch", node.test, f"not ({self._text(node.test)})", where)
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) and node.slice.step is None:
            for bound in (node.slice.lower, node.slice.upper):
                if bound is not None and not (isinstance(bound, ast.Constant) and bound.value == 0):
                    yield self._instead("slice", bound, "", where)
        elif isinstance(node, ast.Call):
            yield from self._of_call(node, where)

    def _of_call(self, node: ast.Call, where: str) -> Iterator[Mutation]:
        if len(node.args) == 2 and not any(isinstance(argument, ast.Starred) for argument in node.args):
            first, second = node.args
            yield self._span("argument", first, second, f"{self._text(second)}, {self._text(first)}", where)
        before: Node | None = node.args[-1] if node.args else None
        for keyword in node.keywords:
            if before is not None and keyword.arg is not None:
                start, end = self._end(before), self._end(keyword)
                yield Mutation("keyword", start, end, "", keyword.lineno, where, self._scope)
            before = keyword
        if isinstance(node.func, ast.Attribute) and not node.args and not node.keywords:
            yield self._instead("call", node, self._text(node.func.value), where)

    def _of_statement(self, node: ast.AST, where: str) -> Iterator[Mutation]:
        if isinstance(node, ast.If | ast.While):
            yield self._instead("branch", node.test, f"not ({self._text(node.test)})", where)
        elif isinstance(node, ast.Continue):
            yield self._instead("loop", node, "break", where)
        elif isinstance(node, ast.AugAssign) and type(node.op) in ARITHMETIC:
            sign, other = f"{SIGNS[type(node.op)]}=", f"{ARITHMETIC[type(node.op)]}="
            yield self._between("operator", node.target, node.value, sign, other, where)
        elif isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
            yield self._instead("return", node.value, "None", where)
        elif isinstance(node, ast.Raise):
            name = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            if isinstance(name, ast.Name) and name.id in RAISED:
                yield self._instead("exception", name, RAISED[name.id], where)
        elif isinstance(node, ast.Try):
            for handler in node.handlers:
                if not isinstance(handler.body[0], ast.Raise):
                    yield self._span("handling", handler.body[0], handler.body[-1], "raise", where)

    def _left_out(self, node: ast.AST, where: str) -> Iterator[Mutation]:
        """Yield mutations that leave out a statement from the blocks of a node."""
        for name in ("body", "orelse", "finalbody"):
            block: Sequence[ast.stmt] = getattr(node, name, ())
            if not isinstance(block, list) or not block or not isinstance(block[0], ast.stmt):
                continue
            for statement in block:
                kind = _kind_left_out(statement)
                if name == "orelse" and len(block) == 1 and isinstance(statement, ast.If) and self._is_elif(statement):
                    yield self._lines("feature", statement, statement.body[-1], where)
                elif kind and len(block) > 1:
                    yield self._lines(kind, statement, statement, where)
                elif kind:
                    yield self._instead(kind, statement, "pass", where)

    def _is_elif(self, node: ast.If) -> bool:
        return self._raw[self._start(node) :].startswith(b"elif")

    def _removed(self, node: ast.FunctionDef, inside: tuple[str, ...]) -> Mutation | None:
        """Return the mutation that removes a function's body below its docstring, for the agent to write again.

        Return None if the function has no docstring, a body of fewer than three lines, or a name that begins with "__".
        """
        if ast.get_docstring(node) is None or len(node.body) < 2 or node.name.startswith("__"):
            return None
        first, last = node.body[1], node.body[-1]
        if (last.end_lineno or 0) - first.lineno < 2:
            return None
        return self._span("removed", first, last, "raise NotImplementedError", ".".join(inside))

    def _between(self, kind: str, left: ast.expr, right: ast.expr, sign: str, other: str, where: str) -> Mutation:
        """Return the mutation that replaces the operator `sign` between two expressions by `other`."""
        start, end = self._end(left), self._start(right)
        gap = self._raw[start:end].decode("utf-8")
        line = left.end_lineno or left.lineno
        return Mutation(kind, start, end, gap.replace(sign, other, 1), line, where, self._scope)

    def _instead(self, kind: str, node: Node, text: str, where: str) -> Mutation:
        return self._span(kind, node, node, text, where)

    def _span(self, kind: str, first: Node, last: Node, text: str, where: str) -> Mutation:
        return Mutation(kind, self._start(first), self._end(last), text, first.lineno, where, self._scope)

    def _lines(self, kind: str, first: ast.stmt, last: ast.stmt, where: str) -> Mutation:
        """Return the mutation that leaves out the lines from the `first` statement to the `last`.

        The first statement must begin its line.
        """
        decorators = getattr(first, "decorator_list", None) or [first]
        start, end = self._starts[decorators[0].lineno - 1], min(self._starts[last.end_lineno or 0], len(self._raw))
        return Mutation(kind, start, end, "", first.lineno, where, self._scope)

    def _start(self, node: Node) -> int:
        return self._starts[node.lineno - 1] + node.col_offset

    def _end(self, node: Node) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._starts[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.expr) -> str:
        return self._raw[self._start(node) : self._end(node)].decode("utf-8")


def _kind_left_out(statement: ast.stmt) -> str:
    """Return the kind of bug that results if a statement is left out; empty if no rule leaves it out."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return "call"
    if isinstance(statement, ast.If) and not statement.orelse:
        guards = ast.Raise | ast.Return | ast.Continue | ast.Break
        return "handling" if len(statement.body) == 1 and isinstance(statement.body[0], guards) else "feature"
    if isinstance(statement, ast.Assign) and all(
        isinstance(target, ast.Attribute | ast.Subscript) for target in statement.targets
    ):
        return "state"
    return ""


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _texts(node: ast.BinOp) -> bool:
    """Return whether an operand is a text literal: a different operator would be an obvious type error."""
    return any(
        isinstance(side, ast.JoinedStr | ast.Constant) and not _is_number(side) for side in (node.left, node.right)
    )


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
