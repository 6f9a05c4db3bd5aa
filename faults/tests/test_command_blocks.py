"""Commands in the texts of packs: which of them a variant has, and what counts as shown."""

from __future__ import annotations

import pytest

from faults import packs
from faults.catalog_check.written_commands import WrittenCommand, written_commands
from faults.packs import PackError, command_blocks, commands_in
from faults.tests.variants import CATALOG, CHECKED

TEXT = """# Brief

```sh
kubectl get pods
```

Open the node.

```sh cause=cordon,drain
kubectl uncordon gpu-1
```

```sh cause=taint
kubectl taint node gpu-1 maintenance-
```

That is all.
"""


@pytest.mark.parametrize(
    ("cause", "commands"),
    [
        ("cordon", ["kubectl get pods", "kubectl uncordon gpu-1"]),
        ("drain", ["kubectl get pods", "kubectl uncordon gpu-1"]),
        ("taint", ["kubectl get pods", "kubectl taint node gpu-1 maintenance-"]),
        ("label", ["kubectl get pods"]),
    ],
)
def test_a_variant_has_its_own_blocks_and_those_of_all(cause, commands):
    text = command_blocks.of_variant(TEXT, {"cause": cause})
    assert commands_in(text) == commands
    assert "cause=" not in text
    assert "\n\n\n" not in text
    assert text.startswith("# Brief\n\n```sh\nkubectl get pods\n```\n\nOpen the node.\n\n")
    assert text.endswith("\n\nThat is all.\n")


def test_a_text_without_blocks_of_variants_stays_as_it_is():
    text = "a\n\n\n\n```sh\nls\n```\n"
    assert command_blocks.of_variant(text, {}) == text


def test_a_block_that_no_variant_has_is_refused_by_name():
    files = packs.load_folder(CATALOG / "idle-node")
    files["brief.md"] += "\n```sh cause=nobody\nls\n```\n"
    with pytest.raises(PackError, match=r"brief\.md.*sh cause=nobody: names values that no variant has"):
        packs.parse(files)


def test_a_block_may_ask_for_several_values_at_once():
    text = "```sh cause=taint size=2\nls\n```"
    assert commands_in(command_blocks.of_variant(text, {"cause": "taint", "size": "2"})) == ["ls"]
    assert commands_in(command_blocks.of_variant(text, {"cause": "taint", "size": "3"})) == []


@pytest.mark.parametrize(
    "command",
    [
        "kubectl run x --overrides='{\"spec\":\n  {}}'",
        "kubectl apply -f - <<'EOF'\nkind: Pod\nname: it's\nEOF",
        "kubectl get pods \\\n  -o wide",
    ],
)
def test_a_command_may_take_several_lines(command):
    assert commands_in(f"```sh\nls\n{command}\npwd\n```\n") == ["ls", command, "pwd"]


def test_a_quote_that_is_never_closed_takes_one_command_and_no_more_than_the_block():
    assert commands_in("```sh\necho 'a\nls\n```\n\n```sh\npwd\n```\n") == ["echo 'a\nls", "pwd"]


@pytest.mark.parametrize(
    ("command", "comment", "output", "missing"),
    [
        ("crane config x", "arm64", "arm64\n", ""),
        ("crane config x", "arm64", "amd64\n", "should show 'arm64'"),
        ("wc -c", "0", "120\n", "should show '0'"),
        ("kubectl logs try", "x86_64: it runs", "x86_64\n", ""),
        ("kubectl logs job/a", "", " \n", "says nothing"),
        ("kubectl get job a -o json > a.json", "", "", ""),
        ("sed -i 's|a|b|' a.json", "or an editor: vi", "", ""),
        ("sleep 10", "until it runs", "", ""),
        ("jq '.a > 1' a.json", "", "", "says nothing"),
    ],
)
def test_a_command_has_to_say_something_and_what_its_comment_says(command, comment, output, missing):
    said = WrittenCommand(command, comment).missing_in(output)
    assert missing in said
    assert bool(missing) == bool(said)


@pytest.mark.parametrize("pack", CHECKED, ids=lambda pack: pack.slug)
def test_every_variant_has_a_brief_with_a_way_through(pack):
    for values in pack.variants:
        assert len(list(written_commands(pack.bind(parameters=values)))) >= 7
