"""Markdown: plain elements, and no text that keeps a page waiting."""

from __future__ import annotations

import time

import pytest

from faults import markdown
from faults.markdown import MAX_FORMATTED, render


def test_formatting_is_kept_and_html_is_text():
    html = render("# A\n\n**b** `c` ~~d~~ [e](https://x.example)\n\n|a|\n|-|\n|1|\n\n<script>alert(1)</script>")
    for part in ("<h1>A</h1>", "<strong>b</strong>", "<code>c</code>", "<s>d</s>", "<td>1</td>", "&lt;script&gt;"):
        assert part in html


@pytest.mark.parametrize("block", ["A *word* in `code`.\n\n", "[", "*_", "|a|\n|-|\n", "> - ", "<b>"])
def test_fifty_kilobytes_cost_less_than_fifty_milliseconds_and_say_why_they_are_plain(block):
    text = (block * 50_000)[:50_000]
    began = time.thread_time()
    html = render(text)
    assert time.thread_time() - began < 0.05
    assert "Only texts of up to 16,000 characters are formatted. This one has 50,000." in html
    assert "<b>" not in html


def test_a_text_is_parsed_once(monkeypatch):
    parsed = []
    monkeypatch.setattr(markdown, "plain", lambda html: parsed.append(html) or html)
    text = "*once* " * 10
    assert render(text) == render(text)
    assert len(parsed) == 1


def test_the_longest_formatted_text_is_formatted():
    assert "<em>" in render("*a* " * (MAX_FORMATTED // 4))
