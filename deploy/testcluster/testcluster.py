"""Start and stop a real Kubernetes control plane on this machine: no Docker, no root, everything in one folder.

``python deploy/testcluster/testcluster.py up|down|status|kubeconfig [--folder DIR] [--bin DIR] [--port N]``

It is the oracle for kubesim: what kubesim answers is compared with what this answers. The binaries come from
``--bin`` (else ``TESTCLUSTER_BIN``, else where ``make testcluster`` builds them), and from PATH where that folder has
none. It listens on loopback only.
"""

from __future__ import annotations

import argparse
import datetime
import fcntl
import ipaddress
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

HOST = "127.0.0.1"
ADVERTISED = "172.16.0.2"
"""Address of the API server for pods, as the service `kubernetes` tells it; a loopback address it would refuse."""
START_SECONDS = 60
CACHE = Path.home() / ".cache" / "faultline"
MARK = "testcluster"
"""The file by which a folder is known to be ours, to be emptied at the next start."""
PAPER = "--manage-nodes-with-label-selector=!kubesim.dev/group"
"""The nodes that kwok looks after: all but those of ``kubesim nodes``, which run their pods themselves."""
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
Key = ec.EllipticCurvePrivateKey


class TestclusterError(Exception):
    """Something is missing or did not start; the message says what to do."""


class Authority:
    """One certificate authority of our own, with its files in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "testcluster")])
        self.certificate = self._sign(self.name, self.key, authority=True)
        _write(folder / "ca.crt", self.certificate.public_bytes(serialization.Encoding.PEM))
        _write(folder / "ca.key", _pem(self.key))

    def issue(self, name: str, common_name: str, organization: str = "", server: bool = False) -> None:
        """Write NAME.crt and NAME.key for a client, or for the API server."""
        key = ec.generate_private_key(ec.SECP256R1())
        attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
        if organization:
            attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
        certificate = self._sign(x509.Name(attributes), key, server=server)
        _write(self.folder / f"{name}.crt", certificate.public_bytes(serialization.Encoding.PEM))
        _write(self.folder / f"{name}.key", _pem(key))

    def _sign(self, subject: x509.Name, key: Key, authority: bool = False, server: bool = False) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        usage = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + datetime.timedelta(days=30))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        )
        if not authority:
            builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if server:
            builder = builder.add_extension(x509.SubjectAlternativeName(list(_names())), critical=False)
        return builder.sign(self.key, hashes.SHA256())


def _names() -> Iterator[x509.GeneralName]:
    for name in ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"):
        yield x509.DNSName(name)
    for address in (HOST, "10.96.0.1"):
        yield x509.IPAddress(ipaddress.ip_address(address))


def _pem(key: Key | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _write(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)


class Testcluster:
    """The processes of one control plane and the folder that holds everything of it."""

    def __init__(self, folder: Path, binaries: Path, port: int = 0) -> None:
        self.folder = folder
        self.binaries = binaries
        self.port = port
        self.admin = folder / "admin.kubeconfig"
        self._started: dict[str, subprocess.Popen[bytes]] = {}

    def up(self) -> Path:
        """Start it, unless all of it runs already, and return the admin kubeconfig. Raises TestclusterError."""
        self._make_folder()
        with self._alone():
            if len(self.running()) < len(PROGRAMS):
                self._restart()
        return self.admin

    def down(self) -> None:
        """Stop every process that was ever started for this folder, also where the folder is gone."""
        if not self.folder.is_dir():
            self._stop()
            return
        with self._alone():
            self._stop()

    def running(self) -> dict[str, int]:
        """Return the processes that are alive and ours.

        They are known by their command lines, which name the folder: no file says which they are that could be
        missing, half written, or speak of a number that is another program's by now.
        """
        ours = f"={self.folder}/"
        found = {}
        for pid, command in _processes():
            named = next((name for name in PROGRAMS if re.match(rf"(.*/)?{name} --", command)), "")
            if named and ours in command:
                found[named] = pid
        return {name: found[name] for name in PROGRAMS if name in found}

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Wait until nobody else starts or stops it, and keep it so."""
        held = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(held, fcntl.LOCK_EX)
            yield
        finally:
            os.close(held)

    def _restart(self) -> None:
        programs = {name: self._find(name) for name in PROGRAMS}
        self._stop()
        self._empty_folder()
        self._certificates()
        ports = {name: _free_port() for name in ("etcd", "peer", "manager", "scheduler")}
        ports["api"] = _free_port(self.port)
        for name in ("admin", "kube-controller-manager", "kube-scheduler"):
            self._kubeconfig(name, ports["api"])
        try:
            for name, flags in self._flags(ports):
                self._start(name, [programs[name], *flags])
                if name == "kube-apiserver":
                    self._wait_ready(ports["api"])
        except (TestclusterError, OSError, KeyboardInterrupt):
            self._stop()
            raise

    def _stop(self) -> None:
        """Stop them, the last one first, until there is none: a start that was killed may have had one in hand."""
        while running := self.running():
            for pid in reversed(running.values()):
                end(pid)

    def _make_folder(self) -> None:
        """See to it that there is a folder. Raises TestclusterError for one that is somebody else's."""
        if self.folder.exists() and any(self.folder.iterdir()) and not (self.folder / MARK).exists():
            raise TestclusterError(f"{self.folder} holds other things; choose another folder with --folder")
        try:
            self.folder.mkdir(parents=True, mode=0o700, exist_ok=True)
            (self.folder / MARK).touch()
        except OSError as error:
            raise TestclusterError(f"{self.folder}: {error.strerror}; choose another folder with --folder") from error

    def _empty_folder(self) -> None:
        """Remove what an earlier start has left; the folder itself stays, because it is what is locked."""
        for path in self.folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != MARK:
                path.unlink()

    def _find(self, name: str) -> str:
        ours = self.binaries / name
        found = str(ours) if os.access(ours, os.X_OK) else shutil.which(name)
        if found is None:
            where = f"neither in {self.binaries} nor on PATH"
            raise TestclusterError(f"{name} is {where}. Run: make testcluster   (needs Go 1.24 or newer)")
        return found

    def _certificates(self) -> None:
        authority = Authority(self.folder)
        authority.issue("apiserver", "kube-apiserver", server=True)
        authority.issue("kubelet-client", "kube-apiserver-kubelet-client", "system:masters")
        authority.issue("front-proxy", "front-proxy-client")
        authority.issue("admin", "kubernetes-admin", "system:masters")
        authority.issue("kube-controller-manager", "system:kube-controller-manager")
        authority.issue("kube-scheduler", "system:kube-scheduler")
        _write(self.folder / "sa.key", _pem(rsa.generate_private_key(65537, 2048)))

    def _kubeconfig(self, user: str, port: int) -> None:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "testcluster",
                    "cluster": {
                        "server": f"https://{HOST}:{port}",
                        "certificate-authority": str(self.folder / "ca.crt"),
                    },
                }
            ],
            "users": [
                {
                    "name": user,
                    "user": {
                        "client-certificate": str(self.folder / f"{user}.crt"),
                        "client-key": str(self.folder / f"{user}.key"),
                    },
                }
            ],
            "contexts": [{"name": "testcluster", "context": {"cluster": "testcluster", "user": user}}],
            "current-context": "testcluster",
        }
        _write(self.folder / f"{user}.kubeconfig", json.dumps(config, indent=2).encode())

    def _flags(self, ports: dict[str, int]) -> Iterator[tuple[str, list[str]]]:
        etcd = f"http://{HOST}:{ports['etcd']}"
        peer = f"http://{HOST}:{ports['peer']}"
        at = self.folder
        yield (
            "etcd",
            [
                *(f"--data-dir={at / 'etcd'}", "--unsafe-no-fsync", "--name=default"),
                *(f"--listen-client-urls={etcd}", f"--advertise-client-urls={etcd}"),
                *(f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}"),
                f"--initial-cluster=default={peer}",
            ],
        )
        yield "kube-apiserver", self._apiserver_flags(etcd, ports["api"])
        yield (
            "kube-controller-manager",
            [
                *(f"--kubeconfig={at / 'kube-controller-manager.kubeconfig'}", "--leader-elect=false"),
                *(f"--bind-address={HOST}", f"--secure-port={ports['manager']}", f"--root-ca-file={at / 'ca.crt'}"),
                *(f"--service-account-private-key-file={at / 'sa.key'}", "--use-service-account-credentials=true"),
                *(f"--cluster-signing-cert-file={at / 'ca.crt'}", f"--cluster-signing-key-file={at / 'ca.key'}"),
            ],
        )
        yield (
            "kube-scheduler",
            [
                *(f"--kubeconfig={at / 'kube-scheduler.kubeconfig'}", "--leader-elect=false"),
                *(f"--bind-address={HOST}", f"--secure-port={ports['scheduler']}"),
            ],
        )
        yield "kwok", [f"--kubeconfig={self.admin}", PAPER, "--node-lease-duration-seconds=40"]

    def _apiserver_flags(self, etcd: str, port: int) -> list[str]:
        at = self.folder
        return [
            *(f"--etcd-servers={etcd}", f"--secure-port={port}", f"--bind-address={HOST}"),
            *(f"--advertise-address={ADVERTISED}", "--service-cluster-ip-range=10.96.0.0/16"),
            *("--service-account-issuer=https://kubernetes.default.svc", "--authorization-mode=Node,RBAC"),
            *("--enable-admission-plugins=NodeRestriction", "--feature-gates=InPlacePodVerticalScaling=false"),
            *(f"--service-account-key-file={at / 'sa.key'}", f"--service-account-signing-key-file={at / 'sa.key'}"),
            *(f"--tls-cert-file={at / 'apiserver.crt'}", f"--tls-private-key-file={at / 'apiserver.key'}"),
            *(f"--client-ca-file={at / 'ca.crt'}", "--allow-privileged=true"),
            *(
                f"--kubelet-client-certificate={at / 'kubelet-client.crt'}",
                f"--kubelet-client-key={at / 'kubelet-client.key'}",
            ),
            "--kubelet-preferred-address-types=InternalIP,Hostname",
            *(f"--requestheader-client-ca-file={at / 'ca.crt'}", "--requestheader-allowed-names=front-proxy-client"),
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            *(
                f"--proxy-client-cert-file={at / 'front-proxy.crt'}",
                f"--proxy-client-key-file={at / 'front-proxy.key'}",
            ),
            "--enable-aggregator-routing=true",
        ]

    def _start(self, name: str, command: list[str]) -> None:
        with (self.folder / f"{name}.log").open("wb") as log:
            self._started[name] = subprocess.Popen(  # noqa: S603 - our flags
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def _wait_ready(self, port: int) -> None:
        """Wait until the API server answers. Raises TestclusterError with the end of its log where it does not."""
        context = ssl.create_default_context(cafile=str(self.folder / "ca.crt"))
        context.load_cert_chain(self.folder / "admin.crt", self.folder / "admin.key")
        end, pause = time.monotonic() + START_SECONDS, threading.Event()
        while time.monotonic() < end and self._started["kube-apiserver"].poll() is None:
            try:
                with urllib.request.urlopen(f"https://{HOST}:{port}/readyz", timeout=2, context=context):
                    return
            except (urllib.error.URLError, OSError):
                pause.wait(0.1)
        log = self.folder / "kube-apiserver.log"
        said = "".join(log.read_text(errors="replace").splitlines(keepends=True)[-3:])
        raise TestclusterError(f"the API server did not get ready; the end of {log}:\n{said}")


def _free_port(wanted: int = 0) -> int:
    """Return a free port. Raises TestclusterError where ``wanted`` is taken."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, wanted))
        except OSError as error:
            raise TestclusterError(f"port {wanted}: {error.strerror}; choose another with --port") from error
        return int(probe.getsockname()[1])


def _processes() -> Iterator[tuple[int, str]]:
    """Yield the number and the command line of each process of this user; none for one that has ended."""
    if not Path("/proc/self").exists():
        ask = ["ps", "-xww", "-o", "pid=,command="]
        shown = subprocess.run(ask, capture_output=True, text=True, check=True).stdout  # noqa: S603 - fixed words
        lines = (line.split(maxsplit=1) for line in shown.splitlines())
        yield from ((int(pid), command) for pid, command in lines if not command.startswith(("(", "<defunct>")))
        return
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if folder.stat().st_uid == os.getuid():
                yield int(folder.name), (folder / "cmdline").read_text(errors="replace").replace("\0", " ")
        except (FileNotFoundError, ProcessLookupError):
            continue


def end(pid: int, seconds: float = 10.0) -> None:
    """Ask a process to end, and make it, if it has not done so in time."""
    end, pause = time.monotonic() + seconds, threading.Event()
    try:
        os.kill(pid, signal.SIGTERM)
        while _is_alive(pid):
            if time.monotonic() > end:
                os.kill(pid, signal.SIGKILL)
            pause.wait(0.02)
    except ProcessLookupError:
        return


def _is_alive(pid: int) -> bool:
    """Tell whether a process runs; one that has ended may still be listed, because nobody has asked how."""
    return any(number == pid and command.strip() for number, command in _processes())


def main(arguments: list[str]) -> int:
    """Run one command; 1 with a sentence on stderr where it cannot be done."""
    parser = argparse.ArgumentParser(prog="testcluster", description="A real control plane on loopback, for tests.")
    parser.add_argument("command", choices=["up", "down", "status", "kubeconfig"])
    parser.add_argument("--folder", type=Path, default=CACHE / "testcluster", help="where everything of it lies")
    binaries = Path(os.environ.get("TESTCLUSTER_BIN") or CACHE / "testcluster-bin")  # noqa: TID251 - no Django here
    parser.add_argument("--bin", type=Path, default=binaries, help="folder of the binaries; PATH where it has none")
    parser.add_argument("--port", type=int, default=0, help="port of the API server (default: a free one)")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    cluster = Testcluster(options.folder.resolve(), options.bin, options.port)
    try:
        return _run(cluster, options.command)
    except (TestclusterError, OSError) as exc:
        print(f"error: {exc}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _run(cluster: Testcluster, command: str) -> int:
    """Run a command; ``status`` is 0 where everything runs and 1 where something does not."""
    running = cluster.running()
    if command == "up":
        print(cluster.up())
    elif command == "down":
        cluster.down()
    elif command == "status":
        print(json.dumps({name: running.get(name) for name in PROGRAMS}, indent=2))
        return int(len(running) < len(PROGRAMS))
    elif cluster.admin.exists():
        print(cluster.admin)
    else:
        raise TestclusterError("there is no kubeconfig yet. Run: make testcluster")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
