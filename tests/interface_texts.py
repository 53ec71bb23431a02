"""The texts that people read: ``python -m tests.interface_texts [PATH ...]`` lists them, for a review that misses none.

Templates are read for what they show and for the attributes that are read aloud, mails whole, programs for their
string literals: labels, help, messages, errors. Left out are docstrings, log lines, SQL and names. ``page_texts`` and
``remarks`` are for those who work here: paragraphs of Markdown without their code, docstrings and comments.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from html import unescape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
APPS = ("billing", "keys", "completions", "rankings", "gateway_project")
LOG_CALLS = {"debug", "info", "warning", "exception", "critical", "getLogger", "execute", "compile"}
SHOWN_ATTRIBUTES = re.compile(r'\b(?:title|aria-label|placeholder|alt|content|value)="([^"]*)"')
INLINE = re.compile(r"</?(?:a|abbr|strong|em|code|span|small|b|i|time)\b[^>]*>")
SQL = re.compile(
    r"^\s*(?:SELECT|INSERT|UPDATE|DELETE|WITH|CREATE|ALTER|DROP|SET|LOCK|WHERE|FROM|JOIN|ORDER|GROUP|AND|RETURNING|VALUES)\b"
)
TEXT = re.compile(r"[a-z]{2,}[,;:]? [\w{(]|^[A-Z][a-z]{2,}[.:]?$")


def texts() -> Iterator[tuple[str, str]]:
    """Every text, with the file and line it stands in."""
    for path in sorted((ROOT / "templates").rglob("*")):
        if path.suffix in (".html", ".txt"):
            yield from ((_at(path), text) for text in _template_texts(path.read_text()))
        elif path.suffix == ".js":
            yield from ((_at(path), text) for text in _script_texts(path.read_text()))
    for app in APPS:
        for path in sorted((ROOT / app).rglob("*.py")):
            if "migrations" not in path.parts:
                yield from ((_at(path, line), text) for line, text in _program_texts(path.read_text()))


def page_texts(path: Path) -> Iterator[tuple[str, str]]:
    """Each paragraph, item and cell of a table of a page, with its line; headings, code and addresses of links are left out."""
    source = re.sub(r"^```.*?^```$|^    [^\n]*$|<!--.*?-->", _blanked, path.read_text(), flags=re.MULTILINE | re.DOTALL)
    source = re.sub(r"`[^`\n]*`", "CODE", re.sub(r"\]\([^)\s]*\)", "]", source))
    source = re.sub(r"^#.*$|^\|[-:| ]+\|$", "", source, flags=re.MULTILINE)
    start = 0
    for end in [*re.finditer(r"\n\s*\n|\n(?=\s*[-*] |\d+\. |\|)|(?<=\s)\| ", source), None]:
        text = " ".join(source[start : end.start() if end else None].strip("|-*0123456789. \n").split())
        if text:
            yield _at(path, source.count("\n", 0, start) + 1), text
        start = end.end() if end else start


def _blanked(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n")


def remarks() -> Iterator[tuple[str, str]]:
    """Each docstring and each block of comments of the product, with its line."""
    for app in APPS:
        for path in sorted((ROOT / app).rglob("*.py")):
            if "migrations" not in path.parts:
                source = path.read_text()
                yield from ((_at(path, line), re.sub(r"``[^`]*``", "CODE", text)) for line, text in _docstrings(source))
                yield from ((_at(path, line), re.sub(r"``[^`]*``", "CODE", text)) for line, text in _comments(source))


def _docstrings(source: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and (
            text := ast.get_docstring(node)
        ):
            for paragraph in re.split(r"\n\s*\n|\n(?=- )", text):
                yield node.body[0].lineno, " ".join(paragraph.split())


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Join comments of lines that follow each other: one text."""
    block: list[tuple[int, str]] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if block and token.start[0] != block[-1][0] + 1:
                yield block[0][0], " ".join(text for _, text in block)
                block = []
            block.append((token.start[0], token.string.lstrip("# ")))
    if block:
        yield block[0][0], " ".join(text for _, text in block)


def _at(path: Path, line: int | None = None) -> str:
    name = path.relative_to(ROOT).as_posix()
    return f"{name}:{line}" if line else name


def _template_texts(source: str) -> Iterator[str]:
    source = re.sub(
        r"{% comment %}.*?{% endcomment %}|{#.*?#}|<script\b.*?</script>|<style\b.*?</style>", "", source, flags=re.DOTALL
    )
    source = re.sub(r"{% (?:else|elif)[^%]*%}", " / ", source)
    source = re.sub(r"{% (?:page_link|share_card|include|extends|url)([^%]*)%}", _quoted, source)
    source = re.sub(r"{%.*?%}", "", source, flags=re.DOTALL)
    for part in [*re.split(r"<[^>]*>|\n\n", INLINE.sub("", source)), *SHOWN_ATTRIBUTES.findall(source)]:
        text = " ".join(unescape(part).split())
        if re.search(r"[A-Za-z]{2}", re.sub(r"{{.*?}}", "", text)):
            yield text


def _quoted(tag: re.Match[str]) -> str:
    """The quoted words of a tag that are sentences or names, not paths."""
    return "".join(f" {words} " for words in re.findall(r'"([^"]*)"', tag[1]) if re.match(r"[A-Z]", words))


def _script_texts(source: str) -> Iterator[str]:
    for quoted in re.findall(r'"([^"\n]*)"|`([^`\n]*)`', source):
        text = "".join(quoted)
        if TEXT.search(text):
            yield text


def _program_texts(source: str) -> Iterator[tuple[int, str]]:
    tree = ast.parse(source)
    skipped = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(node):
            skipped.add(node.body[0].value)  # type: ignore[attr-defined]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_log(node.func):
            skipped.update(node.args)
        if isinstance(node, ast.JoinedStr):
            skipped.update(node.values)
    yield from _literals(tree, skipped)


def _is_log(called: ast.Attribute) -> bool:
    """Say whether operators read what the call is given; messages.warning() is for people."""
    is_message = isinstance(called.value, ast.Name) and called.value.id == "messages"
    return called.attr in LOG_CALLS and not is_message


def _literals(node: ast.AST, skipped: set[ast.AST]) -> Iterator[tuple[int, str]]:
    for child in ast.iter_child_nodes(node):
        if child in skipped and not isinstance(child, ast.FormattedValue):
            continue
        text = _literal(child)
        if text is None:
            yield from _literals(child, skipped)
        elif TEXT.search(text) and not SQL.match(text):
            yield child.lineno, " ".join(text.split())  # type: ignore[attr-defined]


def _literal(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{…}" for part in node.values)
    return None


if __name__ == "__main__":
    asked = tuple(sys.argv[1:])
    for place, text in texts():
        if not asked or place.startswith(asked):
            sys.stdout.write(f"{place}\t{text}\n")
