"""The toolbox's Terraform in a folder of this machine, for comparisons with real Terraform."""

from __future__ import annotations

import contextlib
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

from kubesim.terraform import commands
from kubesim.terraform.host import Host
from kubesim.terraform.kubernetes import Answer


class Folder(Host):
    """Serves the interpreter's questions from a folder instead of a pod."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        super().__init__(str(folder), environment)
        self.out: list[str] = []
        self.errors: list[str] = []

    def tell(self, *message: Any) -> None:
        kind, *given = message
        if kind in ("out", "err"):
            (self.out if kind == "out" else self.errors).append(given[0])

    def ask(self, *message: Any) -> Any:
        kind, *given = message
        path = Path(str(given[0])) if given else Path()
        match kind:
            case "names":
                return sorted(each.name for each in path.iterdir()) if path.is_dir() else None
            case "read" | "body":
                text = path.read_text() if path.is_file() else None
                return text if kind == "read" or text is None else {"text": text, "digest": "", "body": None}
            case "write":
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(given[1])
        return None

    def http(self, method: str, url: str, headers: dict[str, str], body: str) -> Answer:
        request = urllib.request.Request(url, body.encode() or None, headers, method=method)
        trust = ssl.create_default_context()
        trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
        try:
            with contextlib.closing(urllib.request.urlopen(request, context=trust)) as answer:
                return Answer(answer.status, answer.read().decode())
        except urllib.error.HTTPError as error:
            return Answer(error.code, error.read().decode())


def toolbox(folder: Path, kubeconfig: Path, *arguments: str, **environment: str) -> CompletedProcess[str]:
    """Run a command of the toolbox's Terraform and return how it ended."""
    known = {
        "HOME": str(folder),
        "KUBE_CONFIG_PATH": str(kubeconfig),
        "TF_CLI_ARGS": "-no-color",
        "TF_IN_AUTOMATION": "1",
    }
    host = Folder(folder, {**known, **environment})
    status = commands.run(host, [*arguments])
    return CompletedProcess([*arguments], status, "".join(host.out), "".join(host.errors))
