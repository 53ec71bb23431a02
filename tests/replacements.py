"""Finds where code replaces an attribute that is another's: of a library, of another module, or of an object's inside."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_SETTERS = {"setattr", "delattr"}
_OF_EXCEPTIONS = {"__cause__", "__context__", "__suppress_context__", "__traceback__"}  # which Python documents for writing


def replacements(path: Path) -> Iterator[str]:
    """Yield ``path: owner.attribute`` of each. Not ``self.attribute``, nor public data of a local object."""
    tree = ast.parse(path.read_text())
    nodes = list(ast.walk(tree))
    imports = [alias for node in nodes if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names]
    imported = {alias.asname or alias.name.partition(".")[0] for alias in imports}
    functions = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path.name
    for node in nodes:
        for target, value in _assigned(node):
            root = _root(target)
            if root in ("self", "cls"):
                continue
            is_private = target.attr.startswith("_") and target.attr not in _OF_EXCEPTIONS
            if root in imported or is_private or _is_function(value, functions):
                yield f"{name}: {ast.unparse(target)}"
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in _SETTERS and _root(node.args[0]) in imported:
            yield f"{name}: {ast.unparse(node)}"


def _assigned(node: ast.AST) -> Iterator[tuple[ast.Attribute, ast.expr | None]]:
    """Yield each attribute that a statement binds anew, and what to. ``+=`` adds to a list, which is there for that."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _pairs(target, node.value)
    elif isinstance(node, ast.AnnAssign | ast.For | ast.NamedExpr):
        yield from _pairs(node.target, None)
    elif isinstance(node, ast.Delete):
        for target in node.targets:
            yield from _pairs(target, None)


def _pairs(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[ast.Attribute, ast.expr | None]]:
    if isinstance(target, ast.Attribute):
        yield target, value
    elif isinstance(target, ast.Tuple | ast.List):
        values = value.elts if isinstance(value, ast.Tuple | ast.List) else [None] * len(target.elts)
        for part, part_value in zip(target.elts, values, strict=False):
            yield from _pairs(part, part_value)


def _root(node: ast.expr) -> str | None:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _is_function(value: ast.expr | None, functions: set[str]) -> bool:
    if isinstance(value, ast.Call):
        return ast.unparse(value.func).rpartition(".")[2] == "partial"
    return isinstance(value, ast.Lambda) or (isinstance(value, ast.Name) and value.id in functions)
