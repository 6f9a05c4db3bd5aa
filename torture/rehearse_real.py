"""``python -m torture.rehearse_real``: rehearse packs on a real control plane, as on a dedicated cluster of the site.

Options are those of ``manage.py rehearse``; without any it is every variant of every scenario. Prints its lines of
JSON as they come, then a table. Fails where a rehearsal does, and where kubectl's own listing of everything is not as
before.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from faults.packs.requires import OWN_IMAGES
from faults.toolbox import PRACTICE_IMAGE
from torture.dump import compare, dump
from torture.real_cluster import ROOT, real_cluster

COLUMNS = ("slug", "variant", "ok", "symptom_s", "fixed_s", "reverted_s", "residue")


def main(arguments: Sequence[str]) -> int:
    """Rehearse on a cluster that is made for it; 0 where all went well and nothing was left."""
    with (
        tempfile.TemporaryDirectory(prefix="faultline-real-") as folder,
        real_cluster(Path(folder), say=_note) as kubeconfig,
    ):
        _note("The cluster is ready.")
        before = dump(kubeconfig)
        status = rehearse(kubeconfig, arguments or ["--all"])
        left = compare(before, dump(kubeconfig))
    for line in left:
        _note(f"not as before: {line}")
    return status or int(bool(left))


def rehearse(kubeconfig: Path, arguments: Sequence[str]) -> int:
    """Run ``manage.py rehearse`` there, show what it says and a table of it, and return its exit status."""
    command = [sys.executable, "-W", "ignore", str(ROOT / "manage.py"), "rehearse", "--json"]
    command += ["--kubeconfig", str(kubeconfig), "--output", str(kubeconfig.parent / "scorecards"), *arguments]
    known = {"TOOLBOX_IMAGE": PRACTICE_IMAGE, "INFERENCE_SERVER_IMAGE": OWN_IMAGES["inference-server"]}
    environment = {**os.environ, **known}  # which simulated nodes know
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    rows = []
    for line in process.stdout:
        sys.stdout.write(line)
        sys.stdout.flush()
        rows += _rows(line)
    for row in table(rows):
        print(row)
    return process.wait()


def _rows(line: str) -> Iterator[dict[str, Any]]:
    """Yield what a line tells of one variant; nothing of what is no such line."""
    try:
        found = json.loads(line)
    except json.JSONDecodeError:
        return
    if isinstance(found, dict) and "slug" in found:
        yield found


def table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the variants as rows of a table in Markdown."""
    if not rows:
        return []
    cells = [[_cell(row.get(name)) for name in COLUMNS] for row in rows]
    return [f"| {' | '.join(line)} |" for line in (COLUMNS, ["---"] * len(COLUMNS), *cells)]


def _cell(value: Any) -> str:
    return f"{value:.1f}" if isinstance(value, float) else json.dumps(value).strip('"')


def _note(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
