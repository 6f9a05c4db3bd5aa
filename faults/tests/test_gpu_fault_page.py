"""The page about GPU faults has every Xid of the table, in its words. `make torture` writes it anew and compares."""

from __future__ import annotations

import re

import pytest

from conftest import ROOT
from faults.xids import cuda_errors, xids

PAGE = (ROOT / "docs" / "gpu-faults.md").read_text(encoding="utf-8")
SECTIONS = {int(text.partition(":")[0]): text for text in PAGE.split("\n## Xid ")[1:]}


def test_every_xid_has_a_section_and_a_row():
    assert sorted(SECTIONS) == sorted(xids())
    assert [int(code) for code in re.findall(r"^\| \[(\d+)\]\(#xid-\1\)", PAGE, re.M)] == sorted(xids())


@pytest.mark.parametrize("code", xids())
def test_a_section_shows_what_the_table_has_for_every_layer(code):
    about, section = xids()[code], SECTIONS[code]
    texts = [text for _, text in about.lines if not text.startswith("NVRM:")]
    first = re.split(r"[({]", texts[0])[0]
    assert re.search(rf"NVRM: Xid \(PCI:0000:04:00\): {code}, .*{re.escape(first)}", section)
    for error in {about.running if about.victims != "none" else 0, about.new} - {0}:
        assert f"{error} `{cuda_errors()[error]['runtime']}`" in section
    assert f'err_code="{code}", err_msg="{about.err_msg}"}} {code}' in section
    assert f"| NVIDIA's recommended action | {about.catalog}: " in section
    assert f"| NVSentinel | {about.sentinel.action}: " in section
    assert "| detected | " in section


@pytest.mark.parametrize(("code", "guides", "ours"), [(43, 702, 719), (74, 217, 220)])
def test_it_says_where_the_guides_table_contradicts_cudas_headers(code, guides, ours):
    assert f"({guides}) for this Xid" in SECTIONS[code]
    assert f"| CUDA, running process | {ours} " in SECTIONS[code]
