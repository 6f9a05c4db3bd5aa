"""The words of the controllers' events: all that is told stands in the table, and nothing else does."""

import ast
from pathlib import Path
from string import Formatter

from kubesim import data

FOLDER = Path(__file__).parents[1] / "controllers"
WORDS = data.read(FOLDER / "events.yaml")


def told():
    """Return the words that are given with each reason, call by call."""
    calls = (node for path in FOLDER.glob("*.py") for node in ast.walk(ast.parse(path.read_text())))
    found = {}
    for node in calls:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "tell":
            found.setdefault(node.args[1].value, []).append({word.arg for word in node.keywords} | {"own"})
    return found


def test_every_reason_that_is_told_has_its_words_and_no_other_stands_in_the_table():
    assert told().keys() == {reason for reasons in WORDS.values() for reason in reasons}


def test_the_words_that_a_text_asks_for_are_given():
    calls = told()
    for reasons in WORDS.values():
        for reason, text in reasons.items():
            wanted = {name for _, name, _, _ in Formatter().parse(text) if name}
            assert any(wanted <= given for given in calls[reason]), reason


def test_a_text_begins_with_the_type_of_its_event():
    kinds = {text.partition(" ")[0] for reasons in WORDS.values() for text in reasons.values()}
    assert kinds == {"Normal", "Warning"}
