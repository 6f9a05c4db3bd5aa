"""Words that give a fault away, found in texts as the pattern of all of them finds them."""

from __future__ import annotations

import pytest

from faults.catalog_check.errors import ProofFailed
from faults.catalog_check.readable import TELL_WORDS, TELLS, Text, find_tell, refuse_tells

INNOCENT = (
    *("namespace default", "leaseCandidates", "fault-quarantine", "DeFault"),
    *("version mismatch", "ERROR_LIB_RM_VERSION_MISMATCH"),
)


@pytest.mark.parametrize("word", TELL_WORDS)
@pytest.mark.parametrize("around", ["{}", "x{}y", "default {}", "DEFAULT leasecandidate {}ed", "voilà: {}"])
def test_a_word_is_found_wherever_the_pattern_finds_it(word, around):
    for form in (word, word.upper(), word.title()):
        text = around.format(form)
        assert find_tell(text) is not None
        assert TELLS.search(text) is not None


@pytest.mark.parametrize("text", [*INNOCENT, " ".join(INNOCENT), "café default", ""])
def test_words_of_kubernetes_tell_nothing(text):
    assert find_tell(text) is None
    assert TELLS.search(text) is None


def test_what_a_variant_is_called_tells_as_a_word_of_its_own_alone():
    refuse_tells([Text("a log", "nightly-train-2 and retrain")], ["nightly-train", "train"])
    with pytest.raises(ProofFailed, match="a log says 'nightly-train'"):
        refuse_tells([Text("a log", "job nightly-train failed")], ["nightly-train"])
