"""How long modules and functions may be: what a newcomer can read at once."""

import ast
import statistics
from pathlib import Path

import kubesim

ROOT = Path(kubesim.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))
MOST_LINES = 500
MEDIAN_LINES = 10


def lines_of(module):
    return module.read_text(encoding="utf-8").count("\n")


def functions_of(module):
    """Yield the functions of a module, those inside others too."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_no_module_is_longer_than_can_be_read_at_once():
    lengths = {str(module.relative_to(ROOT)): lines_of(module) for module in MODULES}
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES} == {}


def test_half_of_all_functions_are_under_ten_lines():
    lengths = [
        node.end_lineno - node.lineno + 1
        for module in MODULES
        if "tests" not in module.relative_to(ROOT).parts
        for node in functions_of(module)
    ]
    assert statistics.median(lengths) < MEDIAN_LINES
