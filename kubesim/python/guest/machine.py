"""The simulated machine, as a program in the sandbox asks it. ``start`` says how the program was started."""

import builtins
import json
import signal as numbers
import sys

import wit_world

with open("/0/linux.json", encoding="utf-8") as file:
    LINUX = json.load(file)
encode, decode = json.JSONEncoder().encode, json.JSONDecoder().decode
start = {}
handlers = {}
wakeup = [-1]


def ask(name, /, **args):
    """Ask the machine, and raise what it answers as an error. A call that a signal has interrupted is made again."""
    if not start:
        raise OSError(f"{name} at build time")
    while True:
        answer = decode(wit_world.host(name, encode(args)))
        for each in answer.get("signals", ()):
            deliver(LINUX["signal"]["SIG" + each])
        if "error" in answer:
            raise error(*answer["error"])
        if "again" not in answer or name == "pause":
            return answer.get("ok")


def deliver(number):
    """Call the handler of a signal, after its number is written where asyncio reads it."""
    if wakeup[0] != -1:
        ask("send", fd=wakeup[0], data=chr(number), until=0)
    handler = handlers.get(number, numbers.default_int_handler if number == 2 else None)
    if callable(handler):
        frame = sys._getframe(2)
        while frame.f_back and frame.f_code.co_filename.startswith("/0/"):
            frame = frame.f_back
        handler(number, frame)


def error(kind, values):
    """Return the exception of a name and arguments; an OSError is of the class of its number."""
    if kind == "OSError" and values:
        return ERRORS.get(values[0], OSError)(*values)
    module, _, name = kind.rpartition(".")
    return getattr(sys.modules.get(module) or __import__(module, fromlist=[name]) if module else builtins, name)(
        *values
    )


def linux_errors():
    """Give OSError and errno Linux' numbers instead of WASI's.

    The interpreter picks the subclass of an OSError in a table that only the garbage collector can find.
    """
    import errno
    import gc

    wasi = {name: getattr(errno, name) for name in dir(errno) if name[0] == "E"}
    table = next(
        each
        for each in gc.get_objects()
        if type(each) is dict and each.get(wasi["ENOENT"]) is FileNotFoundError and wasi["EPERM"] in each
    )
    known = {name: table[number] for name, number in wasi.items() if number in table}
    table.clear()
    for name, number in LINUX["errno"].items():
        if name in known:
            table[number] = known[name]
    for name in wasi:
        delattr(errno, name)
    vars(errno).update(LINUX["errno"])
    errno.errorcode.clear()
    errno.errorcode.update({number: name for name, number in reversed(LINUX["errno"].items())})
    return table


ERRORS = linux_errors()
