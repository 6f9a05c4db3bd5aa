"""Text of others: every character in sight, and bounded."""

from __future__ import annotations

import unicodedata
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faults.checks import ObjectRead, evaluate
from faults.checks.evaluation import FINDING_LENGTH
from faults.checks.model import Condition
from faults.errors import LONGEST_MESSAGE, Conflict
from faults.markdown import render
from faults.plain_text import MOST_MARKS, plain, plain_ends, plain_line

ACTING = {"Cc", "Cs"}
TURNING = set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


class Tags(HTMLParser):
    """Collects every tag with its attributes, as a browser would read them."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, attrs))


class OnePod:
    """A reader of one pod whose image somebody chose."""

    def __init__(self, image):
        self.image = image

    def list(self, api_version, kind, namespace="", label_selector=""):
        return [{"metadata": {"name": "p"}, "spec": {"containers": [{"image": self.image}]}}]


@given(st.text(alphabet=st.characters(), max_size=300), st.integers(5, 80))
def test_nothing_that_acts_is_left_and_nothing_is_longer(text, most):
    shown = plain(text, most)
    assert len(shown) <= most
    assert not {char for char in shown if unicodedata.category(char) in ACTING} - set("\n\r\t")
    assert not TURNING & set(shown)
    assert plain(shown, most) == shown
    assert "\n" not in plain_line(text)


@pytest.mark.parametrize(
    "text", ["Zoë Müller", "王小明", "שלום", "नमस्ते", "👩‍👩‍👧", "Việt", "a\tb\nc", "e\u0301", "لُغَة"]
)
def test_what_people_write_stays(text):
    assert plain(text) == text


def test_what_drives_a_terminal_is_shown_as_its_picture():
    assert plain("\x1b]0;owned\x07\x00\x7f\x9b31m") == "␛]0;owned␇␀␡\ufffd31m"


def test_a_heap_of_marks_is_cut_to_what_a_letter_carries():
    assert plain("e" + "\u0301" * 10_000) == "e" + "\u0301" * MOST_MARKS


@pytest.mark.parametrize("bad", ["\x00", "\x1b[2J", "\u202e", "e" + "\u0301" * 10_000, "x" * 1_000_000])
def test_a_finding_can_be_stored_and_shown_whatever_an_image_is_called(bad):
    read = ObjectRead("v1", "Pod")
    condition = Condition({"pods": read}, "size(pods) == 1", "join(images(pods[0]), ', ')")
    outcome = evaluate(condition, OnePod(f"evil/{bad}:1"))
    assert outcome.verdict == "pass"
    assert outcome.finding.startswith("evil/")
    assert len(outcome.finding) <= FINDING_LENGTH
    assert plain(outcome.finding) == outcome.finding


def test_what_a_cluster_says_of_a_refusal_is_bounded():
    refused = Conflict("Invalid value: \x1b[31m" + "x" * 1_000_000)
    assert len(refused.message) == len(str(refused)) == LONGEST_MESSAGE
    assert "\x1b" not in refused.message


@pytest.mark.parametrize(
    "text",
    [
        "[x](javascript:alert(1))",
        "[x](JaVaScRiPt&colon;alert(1))",
        "[x](data:text/html;base64,PHNjcmlwdD4=)",
        "<javascript:alert(1)>",
        "![x](https://tracker.example/p.png)",
        "<img src=x onerror=alert(1)>",
        "<script>alert(1)</script>",
        "[x]: javascript:alert(1)\n\n[x]",
        '[x](https://ok.example "\\" onmouseover=alert(1)")',
        "<svg/onload=alert(1)>",
        "&#x202e;gnp.exe &#0; &#27;[31m",
    ],
)
def test_markdown_runs_nothing_and_fetches_nothing(text):
    html = str(render(text))
    parser = Tags()
    parser.feed(html)
    assert not {tag for tag, _ in parser.found} & {"script", "img", "svg", "iframe", "style"}
    attributes = [pair for _, pairs in parser.found for pair in pairs]
    assert {name for name, _ in attributes} <= {"href", "title", "rel"}
    assert all(value.startswith(("https://", "http://", "mailto:")) for name, value in attributes if name == "href")
    assert plain(html) == html


def test_a_long_refusal_keeps_the_object_and_the_reason():
    text = plain_ends("Job x is invalid: " + "v" * 9000 + "\x1b: field is immutable", LONGEST_MESSAGE)
    assert text.startswith("Job x is invalid: ")
    assert text.endswith(": field is immutable")
    assert "\x1b" not in text
    assert len(text) <= LONGEST_MESSAGE


def test_a_short_refusal_stays_as_it_is():
    assert plain_ends("pods not found", LONGEST_MESSAGE) == "pods not found"
