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
import types

import accounts
import files
import machine
import modules
import network
import processes
import tracebacks
from machine import start

BANNER = 'Python {version} on linux\nType "help", "copyright", "credits" or "license" for more information.'
INTERRUPTED = 130
MAX_DEPTH = 20_000
OWN_FRAMES = 6
"""The calls of ours below a program's own, which it does not count."""
main = types.ModuleType("__main__")


def prepare(startup):
    """Make the snapshot from which every program begins."""
    files.install()
    processes.install()
    network.install()
    accounts.install()
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
    status = guarded(RUN[start["way"]])
    if start["inspect"] and start["way"] != "prompt":
        status = guarded(prompt)
    return finish(status)


def begin():
    """Set up sys, os.environ and the standard streams as the image has them."""
    for name in modules.RUNNER:
        sys.modules.pop(name, None)
    warnings = importlib.import_module("warnings")  # CPython has it from its start on; codeop looks it up
    sys.warnoptions[:] = start["warnings"]
    warnings._processoptions(start["warnings"])
    os.environ._data.clear()
    os.environ._data.update({os.fsencode(key): os.fsencode(value) for key, value in start["env"].items()})
    numbers = [int(each) for each in (start["version"].split(".") + ["0", "0"])[:3]]
    sys.argv, sys.executable = start["argv"], start["executable"]
    sys.orig_argv, sys._base_executable = start["words"], start["executable"]
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
    for module in [*sys.modules.values()]:
        if getattr(module, "__file__", None):
            module.__file__ = tracebacks.shown(module.__file__)
    sys.path_importer_cache.clear()
    sys.dont_write_bytecode = True
    if sys.version_info < tracebacks.MODERN:
        modules.kept["re"].error.__name__ = modules.kept["re"].error.__qualname__ = "error"
    config = modules.kept["sysconfig"]
    config._PY_VERSION, config._PY_VERSION_SHORT = start["version"], short
    config._PY_VERSION_SHORT_NO_DOT = short.replace(".", "")
    config._BASE_PREFIX = config._BASE_EXEC_PREFIX = start["prefix"]
    allow = sys.setrecursionlimit
    allow(1000 + OWN_FRAMES)
    told = [1000]

    def set_limit(limit, /):
        allow(min(limit, MAX_DEPTH) + OWN_FRAMES)
        told[0] = limit

    sys.setrecursionlimit, sys.getrecursionlimit = set_limit, lambda: told[0]
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
        error = raised(function)
    except SystemExit as leave:
        return status_of(leave)
    return 0 if error is None else INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1


def raised(function, *args, said=None):
    """Call what is the program's, and report what it raises, which is returned; SystemExit goes on."""
    try:
        function(*args)
    except SystemExit:
        raise
    except BaseException as error:  # an interpreter reports whatever a program raises; this is the only place
        if isinstance(error, MemoryError) or type(error) is OverflowError and "index-sized" in str(error):
            machine.ask("outgrow")  # what 32 bits cannot count fills memory
        if said:
            print(said, file=sys.stderr)
        shown = type(error), tracebacks.stripped(error), error.__traceback__
        hook, sys.excepthook = sys.excepthook, tracebacks.report
        if hook is tracebacks.report:
            hook(*shown)
        elif raised(hook, *shown, said="Error in sys.excepthook:"):
            print("\nOriginal exception was:", file=sys.stderr)
            tracebacks.report(*shown)
        sys.excepthook = hook
        return error
    return None


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

    atexit._run_exitfuncs()
    for name in [each for each in vars(main) if each[:2] != "__"]:
        vars(main)[name] = None
    gc.collect()
    for stream in (sys.stdout, sys.__stdout__):
        try:
            if stream is not None and not getattr(stream, "closed", False):
                stream.flush()
        except (OSError, ValueError, AttributeError, TypeError) as error:
            print(f"Exception ignored in: {stream!r}\n{type(error).__name__}: {error}", file=sys.stderr)
            status = 120
    return status


def execute(source, name):
    """Compile and run a source in ``__main__``."""
    exec(compile(source, name, "exec", optimize=start["optimize"]), vars(main))


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
        return runpy._run_module_as_main("__main__", False)
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

    count, ended = 0, False

    def runsource(self, source, filename="<stdin>", symbol="single"):
        if sys.version_info >= tracebacks.MODERN:
            filename = f"<python-input-{self.count}>"
            linecache.cache[filename] = (len(source), None, [f"{each}\n" for each in source.split("\n")], filename)
        more = super().runsource(source, filename, symbol)
        self.count += not more
        return more

    def raw_input(self, prompt=""):
        """Read a line; the end of the input ends a block that is not complete, too."""
        try:
            return super().raw_input(prompt)
        except EOFError:
            if self.ended or not self.buffer:
                raise
            self.ended = True
            self.write("\n")
            return ""

    def showsyntaxerror(self, filename=None, **options):
        error = sys.exception()
        if error.text and not error.text.endswith("\n"):
            error.text += "\n"  # the lines that CPython reads have their end
        sys.excepthook(type(error), error.with_traceback(None), None)

    def runcode(self, code):
        raised(exec, code, self.locals)
        sys.stdout.flush()


def prompt():
    """An interactive session."""
    sys.ps1, sys.ps2 = ">>> ", "... "
    banner = BANNER.format(version=sys.version.replace("\n", ""))
    silent = start["quiet"] or start["way"] != "prompt" or not start["terminals"][0]
    Prompt(vars(main), "<stdin>").interact("" if silent else banner, "")


RUN = {
    "command": run_command,
    "input": run_standard_input,
    "file": run_file,
    "module": run_module,
    "prompt": prompt,
}
