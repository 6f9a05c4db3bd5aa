"""Writes the SDK's fault library, one file of C that its reader may extend: ``make -C native sdk``."""

from __future__ import annotations

import sys

from generate_xids import NATIVE, ROOT, Table, preload, read

SOURCE = NATIVE / "sdk" / "fake_cuda_xid79.c.in"
TARGET = ROOT / "faults" / "sdk" / "cuda-fault-injection" / "fake_cuda_xid79.c"


def main() -> int:
    """Write the file if it differs from what the table says."""
    text = generated(read())
    if not TARGET.exists() or TARGET.read_text(encoding="utf-8") != text:
        TARGET.write_text(text, encoding="utf-8")
        print(f"wrote {TARGET.relative_to(ROOT)}")
    return 0


def generated(table: Table) -> str:
    """Return the file."""
    source = SOURCE.read_text(encoding="utf-8")
    return source.replace("@ERRORS@", errors(table)).replace("@ROWS@", rows(table))


def rows(table: Table) -> str:
    """Return a row for each Xid that changes what CUDA's calls return, as the user guide writes them."""
    names = table["cuda_errors"]
    return "\n".join(
        f'\t{{{code}, {names[preload(row)][1]}, "{row["name"]}"}},'
        for code, row in table["xids"].items()
        if preload(row)
    )


def errors(table: Table) -> str:
    """Return the numbers of all errors with a name in the driver API."""
    return "\n".join(f"\t{names[1]} = {code}," for code, names in sorted(table["cuda_errors"].items()) if names[1])


if __name__ == "__main__":
    sys.exit(main())
