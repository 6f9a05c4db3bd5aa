"""The images that a cluster brings along: checked, and in the form of the catalogue (images.yaml).

A cluster file, the control API and a pack describe them in the same words (imagefile.yaml).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from kubesim import data
from kubesim.custom.values import errors_of, prune
from kubesim.errors import Obj
from kubesim.imagenames import wrong_reference
from kubesim.kubelet.images import Catalogue, PullError

schema: data.Reader[Obj] = data.beside(__file__, "imagefile.yaml")
"""Return the schema of one image."""
MAX_IMAGES, MAX_PRESENT = 100, 200
PLATFORMS = ["linux/amd64", "linux/arm64"]
OWN_BYTES = 4_000_000
"""The compressed bytes that an image adds to what it is built on where it does not say how large it is."""
PROGRAM = ("log", "exit", "term", "load", "ports", "opens", "headers", "pages", "metrics")
"""The fields that tell what an image's own program does."""
VALUES = ("n", "step", "loss", "rate", "tokens", "prompt", "requests", "cache")
_PLACE = re.compile(rf"\{{\{{|\}}\}}|\{{(?:{'|'.join(VALUES)})(?::\.\d[ef])?\}}")


class WrongImage(Exception):
    """Something about an image that cannot be used, and the field in which it stands."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


def read(given: Any, where: str = "images") -> list[Obj]:
    """Return images as entries of a catalogue. Raises ``WrongImage``."""
    whole = {"type": "array", "maxItems": MAX_IMAGES, "items": schema()}
    unknown: list[str] = []
    prune(given, whole, where, unknown)
    for field in unknown:
        raise WrongImage(field, f"there is no such field; known are {', '.join(schema()['properties'])}")
    for error in errors_of(given, whole, where):
        raise WrongImage(error.field, error.detail)
    entries: list[Obj] = []
    for at, image in enumerate(given):
        entries.append(_entry(image, f"{where}[{at}]"))
        _check_pull(entries, f"{where}[{at}]")
    return entries


def read_present(given: Any, entries: Sequence[Obj] = (), where: str = "present") -> list[str]:
    """Return references to images that nodes have from the start. Raises ``WrongImage``."""
    whole = {"type": "array", "maxItems": MAX_PRESENT, "items": {"type": "string"}}
    for error in errors_of(given, whole, where):
        raise WrongImage(error.field, error.detail)
    catalogue = Catalogue(entries)
    for at, text in enumerate(given):
        if wrong := wrong_reference(text):
            raise WrongImage(f"{where}[{at}]", wrong)
        try:
            catalogue.pull(text, "amd64")
        except PullError as error:
            raise WrongImage(f"{where}[{at}]", str(error).partition(" desc = ")[2]) from error
    return list(given)


def _entry(image: Obj, where: str) -> Obj:
    """Return one image as an entry of a catalogue."""
    kept = {name: value for name, value in image.items() if name not in (*PROGRAM, "script")}
    entry = {"tags": ["latest"], **kept}
    if "from" not in image:
        entry.setdefault("platforms", PLATFORMS)
    own = {name: value for name, value in image.items() if name in PROGRAM}
    program = f"/usr/local/bin/{image['name'].rpartition('/')[2]}"
    if "script" in image:
        _check_script(image, where)
        entry["files"] = {**image.get("files", {}), program: image["script"]}
    if own:
        _check_lines(image.get("log", []), f"{where}.log")
        own.setdefault("log", [])
        entry["own"] = own
    if (own or "script" in image) and "entrypoint" not in image:
        entry["entrypoint"] = [program]
    if own and "script" not in image:
        folder, _, name = entry["entrypoint"][0].rpartition("/") if entry["entrypoint"] else ("", "", "")
        if not name:
            raise WrongImage(f"{where}.entrypoint", "give the program that logs and serves")
        entry["extra"] = {folder or "/usr/local/bin": [name]}
    return entry


def _check_script(image: Obj, where: str) -> None:
    for name in ("log", "exit"):
        if name in image:
            raise WrongImage(f"{where}.{name}", "leave it out: the script logs and ends by itself")
    if "from" not in image:
        raise WrongImage(f"{where}.from", "name an image that has the script's interpreter, as python:3.12-slim")


def _check_lines(lines: Iterable[Obj], where: str) -> None:
    for at, line in enumerate(lines):
        field = f"{where}[{at}]"
        if ("at" in line) == ("every" in line):
            raise WrongImage(field, "give at, or from and every (seconds after the start)")
        if rest := re.search(r"[{}]", _PLACE.sub("", line["text"])):
            known = ", ".join(f"{{{name}}}" for name in VALUES)
            raise WrongImage(f"{field}.text", f"{rest[0]} stands alone: write {rest[0] * 2}, or one of {known}")


def _check_pull(entries: Sequence[Obj], where: str) -> None:
    """Raise ``WrongImage`` where the last of some images cannot be pulled for one of its platforms."""
    entry = entries[-1]
    text = f"{entry['name']}:{entry['tags'][0].replace('*', '') or 'latest'}"
    below = 0
    try:
        if "from" in entry:
            base = Catalogue(entries[:-1])
            entry.setdefault("platforms", base.platforms(entry["from"])[1])
            below = base.pull(entry["from"], entry["platforms"][0].split("/")[1]).size
        if entry.setdefault("size", below + OWN_BYTES) < below:
            raise WrongImage(f"{where}.size", f"it is less than the {below} bytes of {entry['from']}")
        whole = Catalogue(entries)
        for platform in entry["platforms"]:
            whole.pull(text, platform.split("/")[1])
    except PullError as error:
        raise WrongImage(f"{where}.from", str(error).partition(" desc = ")[2]) from error
