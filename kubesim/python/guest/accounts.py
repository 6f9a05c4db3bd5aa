"""The modules pwd and grp, of the container's /etc/passwd and /etc/group."""

import sys
import types
from _collections import _tuplegetter

PASSWD = ("pw_name", "pw_passwd", "pw_uid", "pw_gid", "pw_gecos", "pw_dir", "pw_shell")
GROUP = ("gr_name", "gr_passwd", "gr_gid", "gr_mem")


def module(name, sort, path, fields, by_name, by_number, all_of_them):
    """Return a module whose functions look entries up in a file."""
    names = {each: _tuplegetter(at, None) for at, each in enumerate(fields)}
    shown = "(" + ", ".join(f"{each}=%r" for each in fields) + ")"
    kind = type(
        sort, (tuple,), {**names, "__module__": name, "__repr__": lambda self: f"{name}.{sort}{shown % self}"}
    )

    def entries():
        with open(path) as file:
            lines = [line.rstrip("\n").split(":") for line in file if line.count(":") == len(fields) - 1]
        for line in lines:
            line[2:4] = (
                [int(line[2]), line[3].split(",") if line[3] else []] if name == "grp" else map(int, line[2:4])
            )
        return [kind(line) for line in lines]

    def by(at, function, word):
        def look_up(key, /):
            found = [each for each in entries() if each[at] == key]
            if not found:
                raise KeyError(f"{function}(): {word} not found: {key!r}")
            return found[0]

        look_up.__name__ = function
        return look_up

    made = types.ModuleType(name)
    found = {
        by_name: by(0, by_name, "name"),
        by_number: by(2, by_number, "uid" if name == "pwd" else "gid"),
        all_of_them: entries,
    }
    vars(made).update({sort: kind, **found})
    return made


def install():
    """Make both modules."""
    sys.modules["pwd"] = module("pwd", "struct_passwd", "/etc/passwd", PASSWD, "getpwnam", "getpwuid", "getpwall")
    sys.modules["grp"] = module("grp", "struct_group", "/etc/group", GROUP, "getgrnam", "getgrgid", "getgrall")
