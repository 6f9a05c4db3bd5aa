"""Where a process outside ends: streams, or a terminal."""

from __future__ import annotations

from collections.abc import Callable

from kubesim.shell.handles import Reader, Writer


class Stdio:
    """Where a process outside ends: three streams, and a terminal's size if they are one."""

    def __init__(
        self,
        stdin: Reader | None = None,
        stdout: Writer | None = None,
        stderr: Writer | None = None,
        *,
        tty: bool = False,
        size: tuple[int, int] = (24, 80),
    ) -> None:
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr
        self.tty = tty
        self.size = size
        self.on_resize: Callable[[], None] | None = None

    def resize(self, rows: int, columns: int) -> None:
        """Tell the terminal's foreground processes of a new window size (SIGWINCH)."""
        self.size = (rows, columns)
        if self.on_resize:
            self.on_resize()
