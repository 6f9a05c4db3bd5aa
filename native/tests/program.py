"""Makes calls of shared libraries: a line of JSON each, [library, symbol, arguments]; answers with the results."""

import ctypes
import json
import sys

libraries = {}


def argument(given):
    """Text, a number, or a place for words."""
    if isinstance(given, dict):
        words = given.get("words") or [0] * given["out"]
        return (ctypes.c_uint64 * len(words))(*words)
    return ctypes.c_char_p(given.encode()) if isinstance(given, str) else ctypes.c_uint64(given)


for line in sys.stdin:
    name, symbol, given = json.loads(line)
    if name not in libraries:
        libraries[name] = ctypes.CDLL(name or None)
    if not hasattr(libraries[name], symbol):
        print(json.dumps("missing"), flush=True)
        continue
    args = [argument(value) for value in given]
    result = getattr(libraries[name], symbol)(*args)
    written = [list(arg) for arg in args if isinstance(arg, ctypes.Array)]
    print(
        json.dumps([result, *(words[0] if len(words) == 1 else words for words in written)] if written else result),
        flush=True,
    )
