"""``python -m kubesim`` whose containers can run agnhost, the suite's own test image: the same words and options."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[2])]

import agnhost  # noqa: E402 - lies beside this file

from kubesim.commandline import main  # noqa: E402

if __name__ == "__main__":
    agnhost.register()
    sys.exit(main())
