"""chmod and chown."""

from __future__ import annotations

import re

from kubesim.shell.errors import FileError
from kubesim.shell.files import Directory, Node
from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit
from kubesim.shell.tools.users import number_of


def changed_mode(node: Node, spec: str, umask: int) -> int | None:
    """Return the mode after chmod's ``spec``; None for a wrong one."""
    if re.fullmatch(r"[0-7]{1,4}", spec):
        return int(spec, 8)
    mode = node.mode
    for clause in spec.split(","):
        match = re.fullmatch(r"([ugoa]*)((?:[-+=][rwxXst]*|[-+=][ugo])+)", clause)
        if not match:
            return None
        who = match[1] or "a"
        for op, letters in re.findall(r"([-+=])([rwxXstugo]*)", match[2]):
            mode = _apply(
                mode, who.replace("a", "ugo"), op, letters, isinstance(node, Directory), 0 if match[1] else umask
            )
    return mode


def _apply(mode: int, who: str, op: str, letters: str, folder: bool, umask: int) -> int:
    bits = 0
    for letter in letters:
        if letter in "rwx":
            bits |= {"r": 4, "w": 2, "x": 1}[letter]
        elif letter == "X" and (folder or mode & 0o111):
            bits |= 1
        elif letter in "ugo":
            bits |= mode >> {"u": 6, "g": 3, "o": 0}[letter] & 7
    special = (0o4000 if "u" in who else 0) | (0o2000 if "g" in who else 0) if "s" in letters else 0
    special |= 0o1000 if "t" in letters else 0
    mask = sum(7 << {"u": 6, "g": 3, "o": 0}[each] for each in set(who))
    change = (sum(bits << {"u": 6, "g": 3, "o": 0}[each] for each in set(who)) & ~umask) | special
    if op == "+":
        return mode | change
    if op == "-":
        return mode & ~change
    return mode & ~mask | change


async def chmod(process: Process) -> int:
    """Change permissions."""
    argv = [re.sub(r"^-(?=[rwxst]+$)", "\0-", word) for word in process.argv[1:]]
    opts = await kit.options(process, argv=argv)
    args = [word.removeprefix("\0") for word in opts.args]
    if len(args) < 2:
        await kit.usage(process, f"missing operand after '{args[0]}'" if args else "missing operand")
    spec, *names = args
    status = 0
    for name in names:
        status = await _chmod(process, name, spec, recursive="R" in opts) or status
    return status


async def _chmod(process: Process, name: str, spec: str, *, recursive: bool) -> int:
    try:
        if process.view.place(name).readonly:
            raise FileError("EROFS", name)
        process.view.node(name)
        for path, node in process.view.tree(name) if recursive else [(name, process.view.node(name))]:
            await process.tick()
            mode = changed_mode(node, spec, process.view.umask)
            if mode is None:
                await kit.usage(process, f"invalid mode: '{spec}'")
            if process.view.uid not in (0, node.uid):
                raise FileError("EPERM", path)
            node.mode = mode
    except FileError as error:
        text = f"cannot access '{name}'"
        if error.code in ("EPERM", "EROFS"):
            text = f"changing permissions of '{name}'"
        return await process.fail(f"{text}: {error.text}")
    return 0


async def chown(process: Process) -> int:
    """Change owners, or with chgrp groups."""
    opts = await kit.options(process)
    if len(opts.args) < 2:
        await kit.usage(process, f"missing operand after '{opts.args[0]}'" if opts.args else "missing operand")
    spec, *names = opts.args
    owner, _, group = spec.replace(".", ":", 1).partition(":") if process.name == "chown" else ("", "", spec)
    uid = number_of(process.view, owner) if owner else -1
    gid = number_of(process.view, group, "/etc/group") if group else -1
    if uid is None or gid is None:
        what = "user" if process.name == "chown" and uid is None else "group"
        return await process.fail(f"invalid {what}: '{spec}'")
    status = 0
    for name in names:
        try:
            if process.view.uid != 0:
                raise FileError("EPERM", name)
            node = process.view.node(name)
            for _, each in process.view.tree(name) if "R" in opts else [(name, node)]:
                each.uid, each.gid = each.uid if uid < 0 else uid, each.gid if gid < 0 else gid
        except FileError as error:
            text = f"changing ownership of '{name}'" if error.code == "EPERM" else f"cannot access '{name}'"
            status = await process.fail(f"{text}: {error.text}")
    return status


TOOLS: dict[str, Tool] = {"chmod": chmod, "chown": chown, "chgrp": chown}
