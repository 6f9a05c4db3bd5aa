"""The modules that programs may import: the standard library's and the libraries', all imported at build time.

A fresh interpreter shows only those that CPython has at its start; ``import`` brings the others from here.
"""

import importlib
import os
import sys
import zipfile
from importlib.machinery import ModuleSpec, PathFinder

from machine import ask, start
from tracebacks import LIBRARY, shown

HERE = "/0/libraries"
UNWANTED = {
    "antigravity", "this", "idlelib", "turtledemo", "turtle", "tkinter", "lib2to3", "test", "pip",
    "ensurepip", "__main__", "_ios_support",
}  # fmt: skip
MANY = (
    "asyncio", "collections", "concurrent", "email", "encodings", "html", "http", "importlib", "json", "logging",
    "multiprocessing", "os", "unittest", "urllib", "wsgiref", "xml", "zoneinfo", "tomllib", "sqlite3", "pathlib",
    "re",
)  # fmt: skip
"""Packages all of whose modules are imported; of the others, what they import themselves."""
RUNNER = {"machine", "files", "processes", "modules", "tracebacks", "network", "tls", "accounts", "program", "app",
          "wit_world"}  # fmt: skip
"""The sandbox's own modules: the build looks them up, a program does not see them."""
ADJUSTED = {"_socket", "select"}
"""Built-in modules that are changed: the interpreter would make new ones."""
kept = {}
missing = {}
libraries = set()


def files_below(folder):
    """Return the Python files below a folder; at build time, while the build's own files can be seen."""
    found = []
    for root, _, files in os.walk(folder):
        found += [f"{root}/{each}"[len(folder) + 1 :] for each in files if each.endswith(".py")]
    return sorted(found)


def name_of(path):
    """Return the name of the module in a file."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


STANDARD, OWN = files_below(LIBRARY.rstrip("/")), files_below(HERE)


class Kept:
    """Loads what was imported at build time."""

    def create_module(self, spec):
        module = kept.get(spec.name)
        if module is None:
            return None
        module.__loader__ = self
        if start and getattr(module, "__file__", None):
            module.__file__ = place(spec.name, module.__file__)
        return module

    def exec_module(self, module):
        """Run what was not run at build time."""
        name = module.__spec__.name
        if name not in kept:
            exec(self.get_code(name), vars(module))

    def get_source(self, name):
        path = path_of(name)
        return path and ask("source", path=path)

    def get_code(self, name):
        source = self.get_source(name)
        return None if source is None else compile(source, f"{start['library']}/{path_of(name)}", "exec")

    def is_package(self, name):
        return hasattr(kept.get(name), "__path__")


def path_of(name):
    """Return where a module's source is, below the standard library."""
    if name in RUN_LATER:
        return RUN_LATER[name]
    spec = specs.get(name)
    return spec.origin[len(LIBRARY) :] if spec and (spec.origin or "").startswith(LIBRARY) else None


def place(name, path):
    """Return the file that a module says it is."""
    return start["site"] + path[len(HERE) :] if path.startswith(HERE) else shown(path)


specs = {}
RUN_LATER = {
    name_of(each): each
    for each in STANDARD
    if each == "this.py" or each.endswith("/__main__.py") and each.partition("/")[0] not in UNWANTED
}
"""Modules that do their work when they are imported, with the places of their sources."""
LOADER = Kept()


class Finder:
    """Finds a program's own modules where they come first on sys.path, then kept ones, then the rest."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        top = name.partition(".")[0]
        if not start:
            return name in kept and ModuleSpec(name, LOADER, is_package=hasattr(kept[name], "__path__")) or None
        if top in libraries and top[0] != "_" and top not in start["packages"]:
            return PathFinder.find_spec(name, path, target)
        if name in kept:
            own = path is None and own_module(name)
            return own or ModuleSpec(
                name, LOADER, origin=getattr(kept[name], "__file__", None) and place(name, kept[name].__file__),
                is_package=hasattr(kept[name], "__path__"),
            )  # fmt: skip
        found = PathFinder.find_spec(name, path, target)
        if found is None and name in RUN_LATER:
            return ModuleSpec(name, LOADER, origin=f"{start['library']}/{RUN_LATER[name]}")
        if found is None and name in missing:
            raise ModuleNotFoundError(missing[name][0], name=missing[name][1])
        return found

    @staticmethod
    def invalidate_caches():
        PathFinder.invalidate_caches()


def own_module(name):
    """Return the spec of a program's module that hides a standard one."""
    before = sys.path[: sys.path.index(start["library"])] if start["library"] in sys.path else []
    before = [each for each in before if not each.endswith(".zip")]
    return PathFinder.find_spec(name, before) if before and name not in sys.builtin_module_names else None


def load():
    """Import everything, and keep it."""
    sys.path.insert(0, HERE)
    import sysconfig

    sysconfig._init_posix = lambda found: None
    names = {name_of(each) for each in STANDARD if each.partition("/")[0] in MANY and "/test" not in each}
    for name in sorted((sys.stdlib_module_names | names) - UNWANTED - {*RUN_LATER}):
        try:
            importlib.import_module(name)
        except ImportError as error:  # what has no WebAssembly build: a program hears the same
            missing[name] = error.msg, error.name
        except (AttributeError, OSError, ValueError):
            missing[name] = f"No module named {name!r}", name
    for each in OWN:
        libraries.add(name_of(each).partition(".")[0])
        importlib.import_module(name_of(each))
    sys.path.remove(HERE)


def keep(startup):
    """Take what was imported since the start out of sight."""
    config = sys.modules["sysconfig"]
    config._CONFIG_VARS, config._CONFIG_VARS_INITIALIZED = None, False
    for name in [each for each in sys.modules if each not in startup]:
        if name.partition(".")[0] in RUNNER | ADJUSTED:
            continue
        kept[name] = sys.modules.pop(name)
        specs[name] = spec = getattr(kept[name], "__spec__", None)
        if path_of(name):
            spec.loader = kept[name].__loader__ = LOADER
    sys.meta_path[:] = [each for each in sys.meta_path if each is not PathFinder] + [Finder]


def write_sources(target):
    """Write the standard library's sources beside the build, for tracebacks and ``python -m``."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for each in STANDARD:
            if "/test/" not in f"/{each}":
                with open(f"{LIBRARY}{each}", "rb") as file:
                    archive.writestr(zipfile.ZipInfo(each), file.read())
