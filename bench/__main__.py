"""``python -m bench NAME``: run one benchmark; without a name, list them."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import bench

HELPERS = {"__main__", "figures", "gpu_fault_cluster", "installation"}
HELPERS |= {"live_readers", "live_scene", "preparing_scene", "programs"}


def names() -> list[str]:
    """Return every benchmark's name."""
    return sorted(module.name for module in pkgutil.iter_modules(bench.__path__) if module.name not in HELPERS)


def main(arguments: list[str]) -> int:
    """Run the named benchmark; 2 where there is none of that name, else what it returns."""
    name = arguments[0].replace("-", "_") if len(arguments) == 1 else ""
    if name not in names():
        print(f"error: name a benchmark. Run: make bench NAME={names()[0]}   (there are: {', '.join(names())})")
        return 2
    return int(importlib.import_module(f"bench.{name}").main() or 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
