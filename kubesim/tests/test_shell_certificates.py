"""The emulated openssl shows certificates as the host's does."""

from __future__ import annotations

import asyncio
import shutil
import subprocess

import pytest

from kubesim.shell.files import File
from kubesim.tests import shell_world

KINDS = {"rsa": ("rsa:2048",), "ec": ("ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")}
LINES = (
    "openssl x509 -in cert.pem -noout -text",
    "openssl x509 -in cert.pem -noout -subject -issuer -dates",
    "openssl x509 -noout -enddate -serial -fingerprint < cert.pem",
    "openssl x509 -in cert.pem -checkend 86400 -noout; echo $?",
    "openssl x509 -in cert.pem -checkend 8640000 -noout; echo $?",
    "openssl x509 -in cert.pem",
)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl here to compare with")
@pytest.mark.parametrize("kind", KINDS)
def test_a_certificate_is_shown_as_the_hosts_openssl_shows_it(kind, tmp_path):
    names = "subjectAltName=DNS:web.example.com,DNS:web,IP:10.96.0.1"
    made = ["openssl", "req", "-x509", "-newkey", *KINDS[kind], "-nodes", "-keyout", "key.pem", "-out", "cert.pem"]
    made += ["-days", "30", "-subj", "/O=acme/CN=web", "-addext", names, "-addext", "keyUsage=digitalSignature"]
    subprocess.run([*made, "-addext", "extendedKeyUsage=serverAuth"], cwd=tmp_path, capture_output=True, check=True)
    data = (tmp_path / "cert.pem").read_bytes()

    async def shown(line):
        machine = shell_world.machine("toolbox")
        machine.files.walk(shell_world.FOLDER).node.put("cert.pem", File(data=data))
        return await shell_world.run(line, made=machine)

    for line in LINES:
        done = subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert asyncio.run(shown(line)) == (done.stdout + done.stderr, done.returncode)


def test_what_is_no_certificate_is_refused():
    async def refused(line):
        return await shell_world.run(line)

    assert asyncio.run(refused("echo nothing | openssl x509 -noout -text"))[1] == 1
    assert "Could not open" in asyncio.run(refused("openssl x509 -in nosuch"))[0]
