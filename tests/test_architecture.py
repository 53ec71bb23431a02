"""Names of modules, packages that list them, and lines of templates. import-linter checks the imports: see pyproject.toml."""

import ast
import functools
import io
import re
import subprocess
import tokenize
from collections import Counter
from pathlib import Path

import pytest

from tests.replacements import replacements

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ["gateway_project", "billing", "keys", "completions", "rankings"]
MODULES_MAX = 24  # of a folder: more are several things
# Without migrations. Lowered, as a feature pays for itself. Raised three times in the open: from 70,000 for the credentials
# and platforms of clouds (1,600 lines, of which other rooms paid 330); from 71,300 for the proof of the ledger (562), a model's
# page with its costs (247), the first request and trial credit (174), and the admin's first page and stories (96); from 72,370
# for runs and budgets (1,230), bills of providers (1,220), own keys of providers (640), demands about data (520), the usage
# export and webhooks sent again (320), and lifetimes of keys and changes of the API (290). Other rooms paid 285 of these; then
# they paid for all that was added to these: limits that count own keys' prices, bills by hour, alerts of what is reached.
PRODUCT_LINES_MAX = 76_260
# Lines of docstrings and comments, of which the clouds have 190 and the proof of the ledger 60; their share in all lines.
REMARKS_MAX, REMARKS_SHARE_MAX = 8_041, 0.12
DOCS_WORDS_MAX = 79_500  # of all pages: a fact is told once, in few words
BENCH_LINES_MAX, BENCH_WORDS_MAX = 2_500, 1_500  # of what a release measures again; the rest is in the history
PRIVATE_NAMES_MAX = 149  # of the product that tests touch, mostly to empty what a process remembers; only ever lowered
TEST_LINES_MAX = 60  # of one test
# Folders of tests that belong to no room: whole gateways, pages, and what is delivered beside the product.
BESIDE_ROOMS = {".", "bench", "deploy", "live", "pages"}
CELLS_IMPORTERS_MAX = 25  # files: all others work in the current cell, or in each (``gateway_project.db``)
LINE_CHARACTERS_MAX = 160  # of a template, which no formatter wraps
SAYS_NOTHING = {"utils", "helpers", "common", "services"}
UNLISTED = {"__init__", "apps", "migrations", "management", "commands"}
FOLDERS = [
    path.parent.relative_to(ROOT)
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("__init__.py"))
    if path.parent.name not in UNLISTED and path.parent.parent.name != "providers"  # which lists the modules of its folders
]

# Where another's attribute is replaced outside of ``gateway_project.speedups``, and why nothing else would do.
REPLACED = {
    "deploy/gunicorn.conf.py: server.__class__": "gunicorn has no setting for the class of its master",
    "gateway_project/celery.py: worker.safe_say": "Celery writes by it from signal handlers, and has no setting for the words",
    "gateway_project/net/background_http.py: session.auth": "documented for this, as a function of a request",
    "gateway_project/startup.py: gevent.hub.Hub.print_exception": "gevent has no hook for what ends a greenlet",
    "gateway_project/startup.py: sys.excepthook": "documented for this",
    "gateway_project/startup.py: threading.excepthook": "documented for this",
    # Data of one object, no code:
    "billing/sign_in/reauthentication.py: form._mutable": "Django's own QueryDict sets it so when it is complete",
    "completions/catalog/previews.py: trial._messages": "the messages of a copy of a request, which nobody sees",
    "gateway_project/db/pipelined_transaction.py: instance._state": "a row becomes a model as by unpickling",
    "gateway_project/web/page_middleware.py: request._body": "where Django keeps a body that was read",
}


def test_module_names_say_what_is_inside():
    names = {path.stem for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    assert names & SAYS_NOTHING == set()


def test_a_folder_has_few_modules():
    modules = [path for package in [*PACKAGES, "bench"] for path in (ROOT / package).rglob("*.py")]
    counts = Counter(path.parent.relative_to(ROOT) for path in modules if path.parent.name != "migrations")
    assert {str(folder): count for folder, count in counts.items() if count > MODULES_MAX} == {}


def product_files():
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py") if path.parent.name != "migrations"]
    return [*paths, ROOT / "manage.py"]


def count_remarks(text):
    """Count the lines of docstrings, and those that hold a comment alone."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [*ast.walk(ast.parse(text))]
    docstrings = [node.body[0] for node in nodes if isinstance(node, documented) and ast.get_docstring(node)]
    return sum(node.end_lineno - node.lineno + 1 for node in docstrings) + count_comments(text, nodes)


def count_comments(text, nodes):
    """Count the lines that hold a comment alone. To read the tokens is slow: only where a text may look like a comment."""
    numbers = {number for number, line in enumerate(text.split("\n"), 1) if line.lstrip().startswith("#")}
    texts = (node for node in nodes if isinstance(node, ast.Constant | ast.JoinedStr) and node.end_lineno > node.lineno)
    if numbers.isdisjoint(number for node in texts for number in range(node.lineno, node.end_lineno + 1)):
        return len(numbers)
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(each.type == tokenize.COMMENT and each.line.lstrip().startswith("#") for each in tokens)


def test_the_product_stays_small_enough_to_be_read():
    texts = [path.read_text() for path in product_files()]
    lines = sum(len(text.splitlines()) for text in texts)
    assert lines <= PRODUCT_LINES_MAX
    assert sum(map(count_remarks, texts)) <= min(REMARKS_MAX, REMARKS_SHARE_MAX * lines)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("x = 1  # one\n", 0),
        ("# a\n# b\nx = 1\n", 2),
        ('x = """\n# a\n"""\n# b\n', 1),
        ('"""One."""\n\n\ndef f():\n    """Two\n\n    lines.\n    """\n    return "three"\n', 5),
    ],
)
def test_what_counts_as_a_remark(text, lines):
    assert count_remarks(text) == lines


def files_of_tests():
    return sorted((ROOT / "tests").rglob("*.py"))


def private_names(nodes):
    """Return the product's private names that a module of tests imports, reads or replaces."""
    froms = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    froms = [node for node in froms if (node.module or "").partition(".")[0] in PACKAGES]
    modules = {each.asname or each.name: f"{node.module}.{each.name}" for node in froms for each in node.names}
    names = {name for name in modules.values() if "._" in name}
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            names |= {f"{modules[node.value.id]}.{node.attr}"} if re.match("_[^_]", node.attr) else set()
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "setattr" and len(node.args) == 3:
            owner, name = ast.unparse(node.args[0]), node.args[1]
            if isinstance(name, ast.Constant) and isinstance(name.value, str) and name.value.startswith("_"):
                names.add(f"{modules.get(owner, owner)}.{name.value}")
    return names


@functools.cache
def private_names_and_long_functions():
    """Return both at once, as to parse all tests takes seconds."""
    names, functions = set(), []
    for path in files_of_tests():
        nodes = [*ast.walk(ast.parse(path.read_text()))]
        names |= private_names(nodes)
        defined = (node for node in nodes if isinstance(node, ast.FunctionDef))
        functions += [node.name for node in defined if node.end_lineno - node.lineno >= TEST_LINES_MAX]
    return names, functions


def test_a_test_is_in_the_folder_of_its_room():
    folders = {path.parent.relative_to(ROOT / "tests") for path in files_of_tests() if path.name.startswith("test_")}
    strays = {str(folder) for folder in folders if not (ROOT / folder / "__init__.py").exists()}
    assert strays <= BESIDE_ROOMS


def test_no_test_imports_from_another():
    imported = re.compile(r"^\s*from tests\.?[\w.]*\btest_\w+ import|^\s*from tests[\w.]* import test_", re.MULTILINE)
    assert [path for path in files_of_tests() if imported.search(path.read_text())] == []


def test_no_test_mocks():
    imported = re.compile(r"^\s*(?:from|import) unittest\b.*\bmock\b", re.MULTILINE | re.IGNORECASE)
    assert [path for path in files_of_tests() if imported.search(path.read_text())] == []


def test_tests_touch_few_private_names():
    names, _ = private_names_and_long_functions()
    assert len(names) <= PRIVATE_NAMES_MAX


def test_a_test_is_short_enough_to_be_read():
    _, functions = private_names_and_long_functions()
    assert functions == []


def test_few_files_import_cells():
    importers = [path for path in product_files() if re.search(r"^\s*(?:from|import) .*cells", path.read_text(), re.MULTILINE)]
    assert len(importers) <= CELLS_IMPORTERS_MAX, sorted(str(path.relative_to(ROOT)) for path in importers)


def test_benchmarks_and_their_page_stay_small():
    lines = sum(len(path.read_text().splitlines()) for path in (ROOT / "bench").rglob("*.py"))
    words = len((ROOT / "docs" / "bench.md").read_text().split())
    assert lines <= BENCH_LINES_MAX
    assert words <= BENCH_WORDS_MAX


def test_the_pages_stay_short_enough_to_be_read():
    words = {path: len(path.read_text().split()) for path in (ROOT / "docs").rglob("*.md")}
    assert len(words) > 50
    assert sum(words.values()) <= DOCS_WORDS_MAX


@pytest.mark.parametrize("folder", FOLDERS, ids=str)
def test_a_package_docstring_lists_its_modules(folder):
    docstring = ast.get_docstring(ast.parse((ROOT / folder / "__init__.py").read_text())) or ""
    modules = {path.stem for path in (ROOT / folder).glob("*.py")} | {
        path.parent.name for path in (ROOT / folder).glob("*/__init__.py")
    }
    assert {module for module in modules - UNLISTED if not re.search(rf"\b{module}\b", docstring)} == set()


def test_no_line_of_a_template_is_longer_than_160_characters():
    lines = {
        f"{path.relative_to(ROOT)}:{number}": line
        for path in sorted((ROOT / "templates").rglob("*.html"))
        for number, line in enumerate(path.read_text().splitlines(), start=1)
    }
    assert len(lines) > 1000
    assert [place for place, line in lines.items() if len(line) > LINE_CHARACTERS_MAX] == []


def test_enter_in_a_form_presses_the_button_that_sends_what_was_typed():
    """A browser presses the first button of a form. One with a name, or for another address, sends something else."""
    named = []
    for path in sorted((ROOT / "templates").rglob("*.html")):
        for form in re.findall(r"<form\b.*?</form>", path.read_text(), re.DOTALL):
            buttons = re.findall(r"<button\b(?![^>]*type=.button)[^>]*>|<input\b[^>]*type=.submit[^>]*>", form)
            is_typed_in = re.search(
                r'_field\.html|\.as_p|<textarea|<input(?![^>]*type="(?:hidden|submit|checkbox|radio))', form
            )
            if is_typed_in and buttons and re.search(r"\b(?:name|formaction)=", buttons[0]):
                named.append(f"{path.relative_to(ROOT)}: {buttons[0]}")
    assert named == []


def test_every_test_that_ci_runs_by_name_is_there():
    lists = re.findall(r"^(?:in_cells|without_speedups)=\((.*)\)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert len(lists) == 2
    named = " ".join(lists)
    paths = subprocess.run(["bash", "-c", f"printf '%s\\n' {named}"], capture_output=True, text=True, check=True).stdout.split()
    assert len(paths) > 5
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_nothing_is_replaced_outside_of_speedups():
    tops = [ROOT / top for top in [*PACKAGES, "deploy"]]
    paths = [path for top in tops for path in sorted(top.rglob("*.py")) if path.parent != ROOT / "gateway_project" / "speedups"]
    assert sorted(each for path in paths for each in replacements(path)) == sorted(REPLACED)


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import logging\nlogging._lock = None", ["logging._lock"]),
        ("from a import B\nB.run, B.other = f, g", ["B.run", "B.other"]),
        ("from a import b\nsetattr(b, 'run', None)", ["setattr(b, 'run', None)"]),
        ("def f(): ...\ndef g(server): server.reload = f", ["server.reload"]),
        ("def g(worker): worker.at = functools.partial(f, 1)", ["worker.at"]),
        ("def g(pool): pool._resolve = 1", ["pool._resolve"]),
        ("def g(row):\n    row.name = 'a'\n    self._name = 1\nfrom a import b\nb.all += [1]", []),
    ],
)
def test_what_counts_as_replaced(code, found, tmp_path):
    path = tmp_path / "module.py"
    path.write_text(code)
    assert [each.partition(": ")[2] for each in replacements(path)] == found
