"""Runs a test in its pod: a test that is ended from outside still cleans up after itself."""

import runpy
import signal
import sys


def _end(number: int, frame: object) -> None:
    sys.exit(128 + number)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
