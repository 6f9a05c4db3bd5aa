"""YAML aliases: what is written once and meant often, and what would fill the memory of whoever follows it."""

from __future__ import annotations

import pytest
import yaml

from kubesim import data
from kubesim.api import bodies
from kubesim.shell.kubectl.documents import documents

BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + at)}: &{chr(98 + at)} [{','.join([f'*{chr(97 + at)}'] * 9)}]\n" for at in range(9)
)


def test_a_document_that_explodes_is_refused_in_goyamls_words() -> None:
    for parse in (data.parse_sent, documents):
        with pytest.raises(yaml.YAMLError, match="document contains excessive aliasing"):
            parse(BOMB)
    with pytest.raises(ValueError, match="^yaml: document contains excessive aliasing$"):
        bodies._yaml(BOMB.encode())


def test_a_long_text_that_is_meant_a_thousand_times_is_refused() -> None:
    with pytest.raises(yaml.YAMLError, match="excessive aliasing"):
        data.parse_sent(f"a: &a {'x' * 100_000}\nb: [{','.join(['*a'] * 1000)}]\n")


def test_a_long_text_that_is_meant_once_is_taken() -> None:
    assert len(data.parse_sent(f"a: {'x' * 1_000_000}\n")["a"]) == 1_000_000


def test_a_document_that_holds_itself_is_refused() -> None:
    with pytest.raises(yaml.YAMLError, match="contains itself"):
        data.parse_sent("a: &a [*a]")


def test_aliases_in_moderation_mean_what_they_name() -> None:
    text = "a: &a {b: 1}\nc: [*a, *a]\nd: {<<: *a, e: 2}\n"
    meant = {"a": {"b": 1}, "c": [{"b": 1}, {"b": 1}], "d": {"b": 1, "e": 2}}
    assert data.parse_sent(text) == meant
    assert bodies._yaml(text.encode()) == meant
    assert documents(text) == [meant]
