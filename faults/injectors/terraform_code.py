"""Terraform's code in a session's toolbox: laid there, changed while somebody works on it, and changed back.

Beside it lies a copy of each file as it was laid last. A file that differs from its copy is somebody's work.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import hashlib
import secrets
import shlex
from collections.abc import Iterable, Mapping
from contextlib import suppress

from faults.engine.ports import ClusterPort
from faults.errors import ClusterError
from faults.injectors.terraform_runs import run
from faults.toolbox_place import CODE, HOME

PART = 6000
"""Characters that one command carries: it travels in the address of a request, of which proxies take 8,000."""
KEPT = ".yours"
"""Added to the name of a file of theirs that one of ours takes the place of; Terraform reads none of that name."""
_END = "END-OF-FILE"
_NEW = "new"  # in the folder that a script runs in
_RUN_PARTS = """cd "$1" && base64 -d parts | gunzip > script || exit 1
[ "$(sha256sum < script | cut -d' ' -f1)" = "$2" ] || { echo 'The code did not arrive as it was sent.'; exit 1; }
sh ./script"""
_LAID = f"{HOME}/.platform"
_FOLDER = "workspace/"  # of packs, before the paths of the code
_SAME = 'same() { diff -q "$1" "$2" > /dev/null 2>&1; }'
_LAY = f"""{_SAME}
lay() {{
  if test -e "{CODE}/$1" && ! same "{CODE}/$1" "{_NEW}/$1" && ! same "{CODE}/$1" "{_LAID}/$1"; then
    kept="{CODE}/$1{KEPT}" number=2
    while test -e "$kept" && ! same "{CODE}/$1" "$kept"; do
      kept="{CODE}/$1{KEPT}-$number" number=$((number + 1))
    done
    cp "{CODE}/$1" "$kept"
  fi
  mkdir -p "$(dirname "{CODE}/$1")" "$(dirname "{_LAID}/$1")"
  cp "{_NEW}/$1" "{CODE}/$1" && cp "{_NEW}/$1" "{_LAID}/$1"
}}
"""
_BACK = f"""{_SAME}
back() {{
  same "{CODE}/$1" "{_LAID}/$1" || return 0
  rm -f "{CODE}/$1" "{_LAID}/$1"
  test ! -e "{_NEW}/$1" || {{ cp "{_NEW}/$1" "{CODE}/$1" && cp "{_NEW}/$1" "{_LAID}/$1"; }}
}}
"""


def replace_code(cluster: ClusterPort, code: Mapping[str, str]) -> None:
    """Lay the code into the toolbox, in the place of all that is there. Raises ClusterError."""
    execute(cluster, f"rm -rf {CODE} {_LAID}\n{script_of(code)}cp -r {CODE} {_LAID}\n")


def write_files(cluster: ClusterPort, code: Mapping[str, str]) -> None:
    """Write files of the code, which count as somebody's work, over those that are there. Raises ClusterError."""
    execute(cluster, script_of(code))


def overlay_files(cluster: ClusterPort, changes: Mapping[str, str]) -> None:
    """Lay files over those that are there; one that somebody has changed is kept beside. Raises ClusterError."""
    execute(cluster, f"{script_of(changes, _NEW)}{_LAY}{_each('lay', changes)}")


def restore_files(cluster: ClusterPort, before: Mapping[str, str | None]) -> None:
    """Give files, by their paths, the text of before (None: there was none) where ours is still there."""
    texts = {path: text for path, text in before.items() if text is not None}
    execute(cluster, f"{script_of(texts, _NEW)}{_BACK}{_each('back', before)}")


def read_files(cluster: ClusterPort, paths: Iterable[str]) -> dict[str, str | None]:
    """Return the texts of files as they are in the toolbox; None for those that are missing. Raises ClusterError."""
    wanted = {_below(path): path for path in paths}
    lines = [f'! test -e {name} || {{ echo "= "{name}; base64 {name}; }}' for name in map(shlex.quote, wanted)]
    found = dict(unpacked(run(cluster, "\n".join([f"cd {CODE}", *lines])))) if wanted else {}
    return {path: found.get(name) for name, path in wanted.items()}


def unpacked(output: str) -> list[tuple[str, str]]:
    """Return paths and texts of an output in which each file is a line ``= path`` and then base64."""
    found: list[tuple[str, list[str]]] = []
    for line in output.splitlines():
        if line.startswith("= "):
            found.append((line[2:].removeprefix("./"), []))
        elif found:
            found[-1][1].append(line)
    return [(path, _text(lines)) for path, lines in found]


def script_of(code: Mapping[str, str], folder: str = CODE) -> str:
    """Return the lines of a shell that write the files; each ends with the end of a line."""
    folders = sorted({f"{folder}/{_below(path)}".rpartition("/")[0] for path in code})
    lines = [f"mkdir -p {shlex.quote(name)}" for name in folders]
    for path, text in sorted(code.items()):
        ending, end = "" if text.endswith("\n") else "\n", _END
        while end in text:
            end += "-"
        lines.append(f"cat > {shlex.quote(f'{folder}/{_below(path)}')} <<'{end}'\n{text}{ending}{end}")
    return "".join(f"{line}\n" for line in lines)


def execute(cluster: ClusterPort, script: str) -> None:
    """Run a script that may be too long for one command, in a folder of its own. Raises ClusterError.

    It travels in parts, through that folder, which nobody can have prepared; what arrives is compared first.
    """
    packed = base64.b64encode(gzip.compress(script.encode(), mtime=0)).decode()
    digest = hashlib.sha256(script.encode()).hexdigest()
    folder = f"/tmp/{secrets.token_hex(16)}"  # noqa: S108 - made anew, and refused where it is there
    run(cluster, 'mkdir -m 700 "$1"', folder)
    try:
        for start in range(0, len(packed), PART):
            run(cluster, 'printf %s "$2" >> "$1/parts"', folder, packed[start : start + PART])
        run(cluster, _RUN_PARTS, folder, digest)
    finally:
        with suppress(ClusterError):  # a toolbox that has gone has nothing to remove
            run(cluster, 'rm -rf "$1"', folder)


def _each(command: str, paths: Iterable[str]) -> str:
    return "".join(f"{command} {shlex.quote(_below(path))} || exit 1\n" for path in sorted(paths))


def _below(path: str) -> str:
    return path.removeprefix(_FOLDER)


def _text(lines: list[str]) -> str:
    try:
        return base64.b64decode("".join(lines)).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return ""
