"""What tests of containers have in common: entering them, and reading what they print."""

from kubesim.shell.machine import Stdio
from kubesim.tests.agnhost import IMAGE

AGNHOST = IMAGE


class Sink:
    """Keeps what is written."""

    def __init__(self):
        self.data = b""

    async def write(self, data):
        self.data += data


def agnhost(*args, **more):
    return {"name": "main", "image": AGNHOST, "args": list(args), **more}


async def run(w, name, *command, where="main"):
    """Run a command in a container and return (status, output, errors)."""
    found = await w.pod(name)
    out, err = Sink(), Sink()
    status = await w.kubelets.containers.exec(found, where, command)(Stdio(None, out, err))
    return status, out.data.decode(), err.data.decode()


async def cat(w, name, *paths):
    return (await run(w, name, "cat", *paths))[1]


def log(w, name, **options):
    return w.kubelets.logs("default", name, "main", **options).decode()


def state(obj):
    return obj["status"]["containerStatuses"][0]


async def settings(w):
    await w.create("configmaps", {"metadata": {"name": "settings"}, "data": {"color": "blue", "size": "7"}})
    await w.create("secrets", {"metadata": {"name": "key"}, "data": {"token": "c2VzYW1l"}})
