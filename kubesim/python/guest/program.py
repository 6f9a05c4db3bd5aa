"""Running one program: how CPython starts, what it runs, and how it ends."""

import code
import gc
import importlib
import io
import json
import linecache
import os
import random
import runpy
import sys
import traceback
import types

import files
import machine
import modules
import network
import processes
import tracebacks
from machine import start

BANNER = 'Python {version} on linux\nType "help", "copyright", "credits" or "license" for more information.'
INTERRUPTED = 130
main = types.ModuleType("__main__")


def prepare(startup):
    """Make the snapshot from which every program begins."""
    files.install()
    processes.install()
    network.install()
    modules.load()
    processes.adjust()
    network.adjust()
    tracebacks.install()
    main.__builtins__ = sys.modules["builtins"]
    modules.keep(startup)
    sys.modules["__main__"] = main
    gc.collect()
    gc.freeze()


def run(given):
    """Run a program; returns its exit status."""
    start.update(json.loads(given))
    begin()
    status = finish(guarded(RUN[start["way"]]))
    return status


def begin():
    """Set up sys, os.environ and the standard streams as the image has them."""
    for name in modules.RUNNER:
        sys.modules.pop(name, None)
    importlib.import_module("warnings")  # CPython has it from its start on; codeop looks it up
    os.environ._data.clear()
    os.environ._data.update({os.fsencode(key): os.fsencode(value) for key, value in start["env"].items()})
    numbers = [int(each) for each in (start["version"].split(".") + ["0", "0"])[:3]]
    sys.argv, sys.executable = start["argv"], start["executable"]
    sys.orig_argv = start["words"]
    sys.version = f"{start['version']} {start['build']}"
    sys.version_info = VersionInfo(*numbers, "final", 0)
    sys.hexversion = numbers[0] << 24 | numbers[1] << 16 | numbers[2] << 8 | 0xF0
    short = f"{numbers[0]}.{numbers[1]}"
    sys.implementation.version, sys.implementation.hexversion = sys.version_info, sys.hexversion
    sys.implementation.cache_tag = f"cpython-{short.replace('.', '')}"
    sys.implementation._multiarch = "x86_64-linux-gnu"
    sys.prefix = sys.base_prefix = sys.exec_prefix = sys.base_exec_prefix = start["prefix"]
    library = start["library"]
    sys.path[:] = [
        *([start["folder"]] if start["folder"] is not None else []),
        *[each for each in start["env"].get("PYTHONPATH", "").split(":") if each],
        f"{start['prefix']}/lib/python{short.replace('.', '')}.zip",
        library,
        f"{library}/lib-dynload",
        *start["sites"],
    ]
    sys.path_importer_cache.clear()
    sys.dont_write_bytecode = True
    random.seed(os.urandom(32))
    files.standard_streams()


class VersionInfo(tuple):
    """sys.version_info."""

    NAMES = ("major", "minor", "micro", "releaselevel", "serial")

    def __new__(cls, *values):
        return super().__new__(cls, values)

    def __getattr__(self, name):
        if name in self.NAMES:
            return self[self.NAMES.index(name)]
        raise AttributeError(f"'sys.version_info' object has no attribute {name!r}")

    def __repr__(self):
        pairs = ", ".join(f"{name}={value!r}" for name, value in zip(self.NAMES, self, strict=True))
        return f"sys.version_info({pairs})"


def guarded(function):
    """Return the exit status of a function that runs the program."""
    try:
        function()
    except SystemExit as leave:
        return status_of(leave)
    except KeyboardInterrupt as error:
        tracebacks.report(type(error), error, error.__traceback__)
        return INTERRUPTED
    except BaseException as error:
        if isinstance(error, MemoryError) or "index-sized" in str(error):  # what 32 bits cannot count fills memory
            machine.ask("outgrow")
        error = tracebacks.stripped(error)
        sys.excepthook(type(error), error, error.__traceback__)
    else:
        return 0
    return 1


def status_of(leave):
    """Return the status that a SystemExit asks for."""
    if leave.code is None:
        return 0
    if isinstance(leave.code, int):
        return leave.code & 255
    sys.stdout.flush()
    print(leave.code, file=sys.stderr)
    return 1


def finish(status):
    """End as Py_FinalizeEx does: exit functions, the main module's objects, buffers."""
    import atexit

    try:
        atexit._run_exitfuncs()
        for name in [each for each in vars(main) if each[:2] != "__"]:
            vars(main)[name] = None
        gc.collect()
    except BaseException:
        traceback.print_exc()
    try:
        if not sys.stdout.closed:
            sys.stdout.flush()
    except (OSError, ValueError) as error:
        print(f"Exception ignored in: {sys.stdout!r}\n{type(error).__name__}: {error}", file=sys.stderr)
        status = 120
    return status


def execute(source, name):
    """Compile and run a source in ``__main__``."""
    exec(compile(source, name, "exec"), vars(main))


def run_command():
    """``python -c``"""
    if sys.version_info >= tracebacks.MODERN:
        tracebacks.remember("<string>", start["source"])
    execute(start["source"], "<string>")


def run_standard_input():
    """A program on standard input."""
    source = sys.stdin.read()
    if sys.version_info >= tracebacks.MODERN:
        tracebacks.remember("<stdin>", source)
    execute(source, "<stdin>")


def run_file():
    """A script."""
    path = os.path.join(os.getcwd(), sys.argv[0])
    if os.path.isdir(path):
        sys.path[0] = path
        sys.exit(runpy.run_path(path, run_name="__main__") and 0)
    with io.open_code(path) as file:
        source = file.read()
    main.__file__ = path
    main.__cached__ = None
    execute(source, path)


def run_module():
    """``python -m``"""
    runpy._run_module_as_main(start["module"])


class Prompt(code.InteractiveConsole):
    """CPython's prompt."""

    count = 0

    def runsource(self, source, filename="<stdin>", symbol="single"):
        if sys.version_info >= tracebacks.MODERN:
            filename = f"<python-input-{self.count}>"
            linecache.cache[filename] = (len(source), None, [f"{each}\n" for each in source.split("\n")], filename)
        more = super().runsource(source, filename, symbol)
        self.count += not more
        return more

    def runcode(self, code):
        try:
            exec(code, self.locals)
        except SystemExit:
            raise
        except BaseException as error:
            sys.excepthook(type(error), tracebacks.stripped(error), error.__traceback__)
        sys.stdout.flush()


def prompt():
    """An interactive session."""
    sys.ps1, sys.ps2 = ">>> ", "... "
    banner = BANNER.format(version=sys.version.replace("\n", ""))
    Prompt(vars(main), "<stdin>").interact("" if start["quiet"] else banner, "")


RUN = {
    "command": run_command,
    "input": run_standard_input,
    "file": run_file,
    "module": run_module,
    "prompt": prompt,
}
