"""kubectl edit: an object in an editor, again and again until the server takes it."""

from __future__ import annotations

import random

import yaml

from kubesim.goyaml import to_yaml
from kubesim.shell.errors import FileError, StartError
from kubesim.shell.files import File
from kubesim.shell.kubectl.client import Client, KubectlError, Obj, Resource
from kubesim.shell.kubectl.documents import documents
from kubesim.shell.kubectl.flags import TEXTS, Flags
from kubesim.shell.kubectl.patches import difference, shape_of
from kubesim.shell.kubectl.results import headless, report, send, validation
from kubesim.shell.kubectl.targets import MERGE, STRATEGIC, chosen, place
from kubesim.shell.machine import Process
from kubesim.shell.quoting import quote

LETTERS = "0123456789"
_random = random.Random(1986)


async def edit(process: Process, client: Client, opts: Flags) -> int:
    """Let somebody change objects in an editor."""
    found = await chosen(process, client, opts, opts.args)
    if not found:
        raise KubectlError("error: edit cancelled, no objects found")
    status = 0
    for kind, obj in found:
        status = await _edit(process, client, opts, kind, obj) or status
    return status


async def _edit(process: Process, client: Client, opts: Flags, kind: Resource, obj: Obj) -> int:
    original = to_yaml(headless(obj))
    text, reasons, failed, last, path = original, "", False, "", ""
    while True:
        path, edited = await _opened(process, TEXTS["edited"] + reasons + text)
        body = _plain(edited)
        if failed and body == last:
            await _kept(process, path)
            raise KubectlError("error: Edit cancelled, no valid changes were saved.")
        if body == _plain(original):
            process.view.remove(path)
            await process.error("Edit cancelled, no changes made.\n")
            return 0
        try:
            await _save(process, client, opts, kind, obj, body)
            process.view.remove(path)
            return 0
        except RecursionError as error:
            await _kept(process, path)
            raise KubectlError("error: Edit cancelled, no valid changes were saved.") from error
        except (yaml.YAMLError, ValueError) as error:
            reasons = _comment("The edited file had a syntax error", str(error).splitlines()[0])
        except KubectlError as error:
            if not error.reason:
                await _kept(process, path)
                raise
            if error.reason not in ("Invalid", "BadRequest", "Forbidden"):
                await process.error(error.text + "\n")
                await process.error(f"You can run `kubectl replace -f {path}` to try this update again.\n")
                return 1
            name = f'{kind.collection} "{obj["metadata"]["name"]}"'
            await process.error(f"error: {name} is invalid\n")
            reasons = _comment(f"{name} was not valid", "", error.message)
        failed, last, text = True, body, body


async def _opened(process: Process, text: str) -> tuple[str, str]:
    """Put text into a file, let the editor change it, and return the file's path and text. Raises KubectlError."""
    path = "/tmp/kubectl-edit-" + "".join(_random.choices(LETTERS, k=9)) + ".yaml"  # noqa: S108 - simulated
    process.view.add(
        path, File(data=text.encode("utf-8", "surrogateescape"), mode=0o600, mtime=process.machine.now())
    )
    editor = process.env.get("KUBE_EDITOR") or process.env.get("EDITOR") or "vi"
    await process.flush()
    try:
        status = await process.run(["sh", "-c", f"{editor} {quote(path)}"]).wait()
    except (StartError, FileError) as error:
        raise KubectlError(f'error: unable to launch the editor "{editor}"') from error
    if status:
        await _kept(process, path)
        raise KubectlError(f'error: there was a problem with the editor "{editor}"')
    return path, process.view.read(path).decode("utf-8", "surrogateescape")


async def _kept(process: Process, path: str) -> None:
    await process.error(f'A copy of your changes has been stored to "{path}"\n')


def _plain(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if not line.lstrip().startswith("#"))


def _comment(head: str, text: str, message: str = "") -> str:
    """Return what was wrong as comments for the head of the file."""
    if text:
        return f"# {head}: {text}\n#\n"
    return f"# {head}:\n" + "".join(f"# * {line}\n" for line in message.splitlines()) + "#\n"


async def _save(process: Process, client: Client, opts: Flags, kind: Resource, obj: Obj, text: str) -> None:
    found = [each for each in documents(text) if isinstance(each, dict)]
    if not found:
        raise KubectlError("empty", reason="Invalid")
    after = found[0]
    before = headless(obj)
    shape = shape_of(kind)
    patch = difference(before, after, shape)
    metadata = after.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    for key in ("name", "namespace"):
        if metadata.get(key) != before["metadata"].get(key):
            raise KubectlError("error: At least one of apiVersion, kind and name was changed")
    sort, path = STRATEGIC if shape is not None else MERGE, place(client, kind, obj)
    done = await send(client, opts, "PATCH", path, patch, sort, fieldValidation=validation(opts))
    await report(process, opts, kind, done, "edited")
