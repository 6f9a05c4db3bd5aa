"""The worker's way to its pod: files, requests and output go through the process that has started it."""

from __future__ import annotations

import json
import posixpath
import sys
from collections.abc import Mapping
from typing import Any

from kubesim.terraform.diagnostics import Failure, Problem, failure, said, uncolored
from kubesim.terraform.kubernetes import Answer
from kubesim.terraform.syntax import Body, parse

HALTED = "execution halted"
OUTSIDE = "files outside of the workspace ({}) are not read on practice clusters"


class Host:
    """Asks, and is answered a line at a time; ``folder`` is where the command runs."""

    def __init__(self, folder: str, environment: Mapping[str, str], *, color: bool = True, width: int = 78) -> None:
        self.folder, self.environment, self.color, self.width = folder, environment, color, width
        self.interrupted = False
        """Whether somebody has pressed Ctrl-C: what has begun is finished, and nothing more is begun."""
        self._texts: dict[str, str] = {}

    def ask(self, *message: Any) -> Any:
        """Send a message and return the answer to it."""
        self.tell(*message)
        line = sys.stdin.buffer.readline()
        if not line:
            raise SystemExit(1)
        found, interrupted = json.loads(line)
        if interrupted and not self.interrupted:
            self.interrupted = True
            self.write(said("interrupted"))
        return found

    def tell(self, *message: Any) -> None:
        """Send a message that needs no answer."""
        sys.stdout.buffer.write(json.dumps(message, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
        sys.stdout.buffer.flush()

    def path(self, path: str) -> str:
        """Return a path from the root of the pod's files."""
        if path.startswith("~"):
            path = self.environment.get("HOME", "/") + path[1:]
        return posixpath.normpath(posixpath.join(self.folder, path))

    def say(self, text: str) -> None:
        """Write a line of output."""
        self.write(f"{text}\n")

    def write(self, text: str) -> None:
        """Write output."""
        self.tell("out", text if self.color else uncolored(text))

    def complain(self, text: str) -> None:
        """Write to standard error."""
        self.tell("err", text)

    def question(self, text: str) -> str | None:
        """Show a question and return the line that is typed; None at the end of the input."""
        self.write(text)
        answer: str | None = self.ask("ask")
        return answer

    def names(self, path: str) -> list[str] | None:
        """Return the names of the files in a folder; None where there is none."""
        found: list[str] | None = self.ask("names", self.path(path))
        return found

    def read(self, path: str) -> str | None:
        """Return the text of a file; None where there is none."""
        found: str | None = self.ask("read", self.path(path))
        return found

    def put(self, path: str, text: str) -> None:
        """Write a file. Raises Failure."""
        if (error := self.ask("write", self.path(path), text)) is not None:
            raise Failure(Problem("Failed to write a file", f"{path}: {error}"))

    def text(self, path: str) -> str:
        """Return the text of a file that the code names. Raises ValueError."""
        whole, here = (self.ask("real", each) or each for each in (self.path(path), self.folder))
        roof = posixpath.dirname(here)
        roof = here if roof == "/" else roof
        if not whole.startswith(f"{roof}/"):
            raise ValueError(OUTSIDE.format(roof))
        found = self.read(whole)
        if found is None:
            raise ValueError(said("no_file_exists_at_path", path=path))
        return found

    def source(self, path: str) -> str:
        """Return the text of a file of the configuration, for a message."""
        if path not in self._texts:
            self._texts[path] = self.read(path) or ""
        return self._texts[path]

    def body(self, path: str) -> Body:
        """Return a file, parsed. Raises Failure."""
        answer = self.ask("body", self.path(path))
        if answer is None:
            raise failure("failed_to_read_file", path=path)
        self._texts[path] = answer["text"]
        found: Body | None = answer["body"]
        if found is None:
            found = parse(answer["text"], path)
            self.tell("parsed", answer["digest"], found)
        return found

    def http(self, method: str, url: str, headers: dict[str, str], body: str) -> Answer:
        """Make a request from inside the pod."""
        return Answer(*self.ask("http", method, url, headers, body))

    def wait(self) -> None:
        """Wait a second. Raises Failure where somebody does not want to."""
        self.ask("wait", 1)
        if self.interrupted:
            raise Failure(Problem(HALTED))
