"""What vi and nano make of a file with the keys that people type."""

from __future__ import annotations

import re

import pytest

from kubesim.shell.files import File
from kubesim.tests.shell_world import FOLDER
from kubesim.tests.test_shell_session import Session

TEXT = "one\ntwo\nthree\nfour\n"
VI = {
    "a line is deleted": ("dd:wq\r", "two\nthree\nfour\n"),
    "three lines are deleted": ("3dd:wq\r", "four\n"),
    "a line is yanked and put": ("yyjp:wq\r", "one\ntwo\none\nthree\nfour\n"),
    "a change is undone": ("ddddu:wq\r", "two\nthree\nfour\n"),
    "lines are opened below and above": ("onew\x1bOolder\x1b:wq\r", "one\nolder\nnew\ntwo\nthree\nfour\n"),
    "text is added at both ends": ("A!\x1bI>\x1b:wq\r", ">one!\ntwo\nthree\nfour\n"),
    "every match is replaced": (":%s/o/0/g\r:wq\r", "0ne\ntw0\nthree\nf0ur\n"),
    "what is found is changed": ("/three\rx:wq\r", "one\ntwo\nhree\nfour\n"),
    "changes are thrown away": ("dd:q!\r", TEXT),
    "wide characters are typed": ("A héé 漢字\x1bx:wq\r", "one héé 漢\ntwo\nthree\nfour\n"),
}
NANO = {
    "a line is cut and pasted": ("\x0b\x15\x15\x0f\r\x18", "one\none\ntwo\nthree\nfour\n"),
    "something is typed and written on the way out": ("zero \x18y\r", "zero one\ntwo\nthree\nfour\n"),
    "changes are thrown away": ("x\x18n", TEXT),
}


@pytest.mark.parametrize(
    ("program", "keys", "left"),
    [pytest.param("vi", *case, id=f"vi: {name}") for name, case in VI.items()]
    + [pytest.param("nano", *case, id=f"nano: {name}") for name, case in NANO.items()],
)
async def test_an_editor_leaves(program, keys, left):
    session = Session()
    try:
        await session.screen.shows("# ")
        folder = session.machine.files.walk(FOLDER).node
        folder.put("f", File(data=TEXT.encode()))
        await session.does(f"{program} {FOLDER}/f\r", "four")
        start = len(session.screen.text)
        for part in re.findall(r"[^\x1b]+|\x1b", keys):  # Escape and a letter at once would be a key with Alt
            session.keys.type(part)
        await session.screen.shows("# ", start)
        assert bytes(folder.get("f").content()).decode() == left
    finally:
        session.machine.stop()
