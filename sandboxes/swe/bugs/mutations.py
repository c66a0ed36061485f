"""Small bugs for Python sources: one place changed, everything else byte for byte as it was.

Each mutation is a piece of text replaced by another, found on the syntax tree. Kinds: `operator`, `boundary`,
`constant`, `branch`, `argument`, `call`, `return`, and `removed`, where a whole function's body goes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Mutation:
    """One bug: the bytes from `start` to `end` of a source become `text`.

    Attributes:
        kind: see the module. `line`: where it is, from 1.
        function: dotted name of the function or method it is in, empty at the top of the module.
    """

    kind: str
    start: int
    end: int
    text: str
    line: int
    function: str

    def apply(self, source: str) -> str:
        """The source with the bug in it."""
        raw = source.encode("utf-8")
        return (raw[: self.start] + self.text.encode("utf-8") + raw[self.end :]).decode("utf-8")


def mutations(source: str) -> Iterator[Mutation]:
    """Every bug the rules know for a source, in its order; each leaves Python that can be parsed. None at all for
    what is no Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return
    for mutation in _Finder(source).mutations_of(tree):
        try:
            ast.parse(mutation.apply(source))
        except (SyntaxError, ValueError):  # a format string, say, whose parts have no place of their own
            continue
        yield mutation


class _Finder:
    """Walks a tree with the name of the function it is in."""

    def __init__(self, source: str) -> None:
        self._raw = source.encode("utf-8")
        self._starts = [0]
        for line in self._raw.split(b"\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)

    def mutations_of(self, tree: ast.Module) -> Iterator[Mutation]:
        for part in tree.body:
            yield from self._visit(part, ())

    def _visit(self, node: ast.AST, inside: tuple[str, ...]) -> Iterator[Mutation]:
        if isinstance(node, ast.JoinedStr) or _is_docstring(node):
            return
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = (*inside, node.name)
            if isinstance(node, ast.FunctionDef) and (removed := self._removed(node, name)) is not None:
                yield removed
            defaults = () if isinstance(node, ast.ClassDef) else (*node.args.defaults, *node.args.kw_defaults)
            for part in (*defaults, *node.body):
                yield from self._visit(part, name) if part is not None else ()
            return
        yield from self._of(node, inside)
        for child in ast.iter_child_nodes(node):
            if child is not getattr(node, "annotation", None):
                yield from self._visit(child, inside)

    def _of(self, node: ast.AST, inside: tuple[str, ...]) -> Iterator[Mutation]:
        """The bugs of one node."""
        where = ".".join(inside)
        if not inside:  # what a module says at its top breaks its import, or nothing
            return
        if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC and not _texts(node):
            yield self._between(
                "operator", node.left, node.right, SIGNS[type(node.op)], ARITHMETIC[type(node.op)], where
            )
        elif isinstance(node, ast.BoolOp):
            sign, other = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            if len(node.values) == 2:
                left, right = node.values
                yield self._between("operator", left, right, sign, other, where)
        elif isinstance(node, ast.Compare) and len(node.ops) == 1:
            kind = "boundary" if isinstance(node.ops[0], BOUNDARIES) else "operator"
            sign, other = COMPARED[type(node.ops[0])]
            yield self._between(kind, node.left, node.comparators[0], sign, other, where)
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, bool):
                yield self._instead("constant", node, str(not node.value), where)
            elif isinstance(node.value, int) and abs(node.value) < 1000:
                yield self._instead("constant", node, str(node.value + 1), where)
        elif isinstance(node, ast.If | ast.While | ast.IfExp):
            test = self._text(node.test)
            yield self._instead("branch", node.test, f"not ({test})", where)
        elif isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
            yield self._instead("return", node.value, "None", where)
        elif isinstance(node, ast.Call):
            if len(node.args) == 2 and not any(isinstance(argument, ast.Starred) for argument in node.args):
                first, second = node.args
                yield self._span("argument", first, second, f"{self._text(second)}, {self._text(first)}", where)
            if isinstance(node.func, ast.Attribute) and not node.args and not node.keywords:
                yield self._instead("call", node, self._text(node.func.value), where)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield self._instead("call", node, "pass", where)

    def _removed(self, node: ast.FunctionDef, inside: tuple[str, ...]) -> Mutation | None:
        """A function with a docstring and at least three lines below it, which has to be written again."""
        if ast.get_docstring(node) is None or len(node.body) < 2 or node.name.startswith("__"):
            return None
        first, last = node.body[1], node.body[-1]
        if (last.end_lineno or 0) - first.lineno < 2:
            return None
        return self._span("removed", first, last, "raise NotImplementedError", ".".join(inside))

    def _between(self, kind: str, left: ast.expr, right: ast.expr, sign: str, other: str, where: str) -> Mutation:
        """Replace the sign that stands between two expressions."""
        start, end = self._end(left), self._start(right)
        gap = self._raw[start:end].decode("utf-8")
        return Mutation(kind, start, end, gap.replace(sign, other, 1), left.end_lineno or left.lineno, where)

    def _instead(self, kind: str, node: ast.expr | ast.stmt, text: str, where: str) -> Mutation:
        return self._span(kind, node, node, text, where)

    def _span(
        self, kind: str, first: ast.expr | ast.stmt, last: ast.expr | ast.stmt, text: str, where: str
    ) -> Mutation:
        return Mutation(kind, self._start(first), self._end(last), text, first.lineno, where)

    def _start(self, node: ast.expr | ast.stmt) -> int:
        return self._starts[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._starts[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.expr) -> str:
        return self._raw[self._start(node) : self._end(node)].decode("utf-8")


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _texts(node: ast.BinOp) -> bool:
    """Joined or formatted text: another sign is an error of types, which anybody sees."""
    return any(
        isinstance(side, ast.JoinedStr | ast.Constant) and not _is_number(side) for side in (node.left, node.right)
    )


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
