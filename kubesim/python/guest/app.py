"""The component's entry: CPython with every module that programs may import, and the simulated machine behind it."""

import sys

STARTUP = set(sys.modules) - {"app"}
sys.platform = "linux"

import modules  # noqa: E402

modules.write_sources("/0/stdlib.zip")

import program  # noqa: E402
import wit_world  # noqa: E402


class WitWorld(wit_world.WitWorld):
    """Exports of the component."""

    def run(self, start):
        return program.run(start)


program.prepare(STARTUP)
