"""Writes what kubesim, the faults app and the C sources need of ``xids.yaml``: ``make xids``.

Each takes its own part in its own form, so that none has to read another's files when it runs.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

NATIVE = Path(__file__).resolve().parent
TABLE = NATIVE / "xids.yaml"
ROOT = NATIVE.parent
KUBESIM, FAULTS, LIBRARY = Path("kubesim/gpu/xids.yaml"), Path("faults/xids.json"), Path("native/src/xids.def")
OF_KUBESIM = ("process", "victims", "recovery", "device", "ecc", "remap", "link", "follow")
OF_FAULTS = ("name", "severity", "catalog", "cuda", "nvml", "nvsentinel", "victims")
Table = dict[str, Any]


def main() -> int:
    """Write every file that differs from what the table says."""
    for path, text in generated(read()).items():
        if (ROOT / path).read_text(encoding="utf-8") != text:
            (ROOT / path).write_text(text, encoding="utf-8")
            print(f"wrote {path}")
    return 0


def read() -> Table:
    """Return the table. Raises ValueError where a row cites no source, or an error has no name."""
    table: Table = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    for code, row in table["xids"].items():
        if not row["sources"] or set(row["sources"]) - set(table["sources"]):
            raise ValueError(f"Xid {code} cites no source, or one that is not listed.")
        if unknown := set(row["cuda"].values()) - {0, *table["cuda_errors"]}:
            raise ValueError(f"Xid {code} has a CUDA error without a name: {sorted(unknown)}")
    return table


def generated(table: Table) -> dict[Path, str]:
    """Return the content of each generated file, by its path from the root."""
    return {KUBESIM: for_kubesim(table), FAULTS: for_faults(table), LIBRARY: for_library(table)}


def for_kubesim(table: Table) -> str:
    """Return what the simulated driver, its devices and monitors use."""
    document = {
        "timing": table["timing"],
        "recovery": table["recovery_actions"],
        "cuda": {code: words[-1] for code, words in table["cuda_errors"].items()},
        "xids": {code: _for_kubesim(row) for code, row in table["xids"].items()},
    }
    head = "# Generated from native/xids.yaml by `make xids`: change that file.\n"
    return head + yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=160)


def _for_kubesim(row: Table) -> Table:
    kept = {key: row[key] for key in OF_KUBESIM if key in row}
    told = {
        "message": row["dcgm"]["message"],
        "error": row["cuda"]["running"],
        "sentinel": row["nvsentinel"]["action"],
    }
    return {**told, **kept, **{key: row[key] for key in ("lines", "turing") if key in row}}


def for_faults(table: Table) -> str:
    """Return what the injectors, the API and its clients tell of an Xid, and what the node agent writes."""
    xids = {
        str(code): {
            **{key: row[key] for key in OF_FAULTS},
            "dcgm": {"err_code": code, "err_msg": row["dcgm"]["message"], "health": row["dcgm"]["health"]},
            **{key: row.get(key, default) for key, default in (("process", False), ("recovery", 0), ("follow", []))},
            "preload": preload(row),
            "lines": row["lines"],
            "turing": row.get("turing", []),
            "sources": [table["sources"][key] for key in row["sources"]],
        }
        for code, row in table["xids"].items()
    }
    names = {
        str(code): dict(zip(("runtime", "driver", "text"), words, strict=True))
        for code, words in table["cuda_errors"].items()
    }
    document = {
        "timing": table["timing"],
        "recovery_actions": table["recovery_actions"],
        "cuda_errors": names,
        "xids": xids,
    }
    return json.dumps(document, indent=1) + "\n"


def preload(row: Table) -> int:
    """Return the error that the preloaded library gives; 0: the Xid is none that it knows."""
    return int(row["cuda"].get("preload", row["cuda"]["running"] or row["cuda"]["new"]))


def for_library(table: Table) -> str:
    """Return the rows of the native library: what its calls give, and the ECC errors that NVML counts."""
    head = "/* From xids.yaml: Xid; errors of running and of new processes, of NVML; ECC errors; the variables'. */\n"
    rows = (
        (code, row["cuda"]["running"], row["cuda"]["new"], row["nvml"], row.get("ecc", 0), preload(row))
        for code, row in table["xids"].items()
    )
    return head + "".join(f"XID({', '.join(map(str, row))})\n" for row in rows)


if __name__ == "__main__":
    sys.exit(main())
