"""Where states are kept: a file, or the backend ``kubernetes``: a Secret that a Lease locks."""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import time
import uuid
import zlib
from typing import Any

from kubesim.terraform.diagnostics import Failure, Problem, failure, said
from kubesim.terraform.host import Host
from kubesim.terraform.kubernetes import Api, refusal
from kubesim.terraform.state import VERSION, State, StateError, dump, new_lineage, parse

MOST_BYTES = 16 << 20
ACQUIRING, RELEASING = "Error acquiring the state lock", "Error releasing the state lock"
LOCK_INFO = "app.terraform.io/lock-info"
INFO = ("ID", "Path", "Operation", "Who", "Version", "Created", "Info")


class Local:
    """A state in a file; nobody else has the pod's files."""

    def __init__(self, files: Host, path: str = "terraform.tfstate") -> None:
        self.files, self.path = files, path

    def load(self) -> State:
        """Return the state of the file, or an empty one."""
        text = self.files.read(self.path)
        return _parsed(text) if text else State()

    def save(self, state: State) -> None:
        """Write the file; what was there before goes into another."""
        if (old := self.files.read(self.path)) is not None:
            self.files.put(f"{self.path}.backup", old)
        self.files.put(self.path, dump(state))

    def lock(self, operation: str, who: str) -> None:
        """Do nothing: there is nobody to lock out."""

    def unlock(self) -> None:
        """Do nothing."""


def _parsed(text: str | bytes) -> State:
    try:
        return parse(text)
    except StateError as error:
        raise Failure(Problem("Failed to load state", f"{error}.")) from error


class InCluster:
    """A state in a Secret of the cluster."""

    def __init__(self, api: Api, namespace: str, suffix: str, labels: dict[str, str] | None = None) -> None:
        self.api, self.namespace = api, namespace
        self.name = f"tfstate-default-{suffix}"
        self.labels = {
            **(labels or {}), "tfstate": "true", "tfstateSecretSuffix": suffix, "tfstateWorkspace": "default",
            "app.kubernetes.io/managed-by": "terraform",
        }  # fmt: skip
        self.held = ""
        self._secret = f"/api/v1/namespaces/{self.namespace}/secrets"
        self._lease = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"

    def _metadata(self, name: str, annotations: dict[str, str]) -> dict[str, Any]:
        return {"name": name, "namespace": self.namespace, "labels": self.labels, "annotations": annotations}

    def _ask(self, what: str, method: str, path: str, body: Any = None, *, missing: bool = False) -> Any:
        answer = self.api(method, path, body)
        if answer.status == 404 and missing:
            return None
        if not 200 <= answer.status < 300:
            raise Failure(Problem(what, refusal(method, self.api.server, path, answer)))
        return answer.json

    def load(self) -> State:
        """Return the state of the Secret, or an empty one."""
        found = self._ask("Failed to load state", "GET", f"{self._secret}/{self.name}", missing=True)
        if found is None:
            self.save(state := State(lineage=new_lineage()))
            return state
        data = found.get("data") or {}
        return _parsed(_unpacked(data["tfstate"])) if "tfstate" in data else State()

    def save(self, state: State) -> None:
        """Write the Secret."""
        packed = base64.b64encode(gzip.compress(dump(state).encode())).decode()
        path = f"{self._secret}/{self.name}"
        found = self._ask("Failed to save state", "GET", path, missing=True)
        meta = self._metadata(self.name, {"encoding": "gzip"})
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": {"tfstate": packed}, "type": "Opaque"}
        if found is None:
            self._ask("Failed to save state", "POST", self._secret, body)
            return
        meta |= {"resourceVersion": found["metadata"]["resourceVersion"], "uid": found["metadata"]["uid"]}
        self._ask("Failed to save state", "PUT", path, body)

    def lock(self, operation: str, who: str) -> None:
        """Take the Lease, which is made if there is none."""
        identity, now = str(uuid.uuid4()), time.strftime("%Y-%m-%dT%H:%M:%S.000000000Z", time.gmtime())
        info = {"ID": identity, "Operation": operation, "Info": "", "Who": who, "Version": VERSION, "Created": now}
        info["Path"] = ""
        name = f"lock-{self.name}"
        found = self._ask(ACQUIRING, "GET", f"{self._lease}/{name}", missing=True)
        holder = ((found or {}).get("spec") or {}).get("holderIdentity")
        if holder:
            raise Failure(Problem(ACQUIRING, _locked(found)))
        meta = self._metadata(name, {LOCK_INFO: json.dumps(info, separators=(",", ":"))})
        body: dict[str, Any] = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta}
        body["spec"] = {"holderIdentity": identity}
        if found is not None:
            meta["resourceVersion"] = found["metadata"]["resourceVersion"]
        path = self._lease if found is None else f"{self._lease}/{name}"
        answer = self.api("POST" if found is None else "PUT", path, body)
        if answer.status == 409:
            found = self._ask(ACQUIRING, "GET", f"{self._lease}/{name}")
            raise Failure(Problem(ACQUIRING, _locked(found)))
        if not 200 <= answer.status < 300:
            why = refusal("POST", self.api.server, path, answer)
            raise failure("error_acquiring_the_state_lock", it=why, LOCKED=said("locked"))
        self.held = identity

    def unlock(self) -> None:
        """Give the Lease up."""
        if not self.held:
            return
        path = f"{self._lease}/lock-{self.name}"
        found = self._ask(RELEASING, "GET", path)
        if (found.get("spec") or {}).get("holderIdentity") == self.held:
            found["spec"]["holderIdentity"] = None
            found["metadata"].get("annotations", {}).pop(LOCK_INFO, None)
            self._ask(RELEASING, "PUT", path, found)
        self.held = ""


def _locked(lease: Any) -> str:
    info: dict[str, Any] = {}
    with contextlib.suppress(ValueError):
        info = json.loads((lease["metadata"].get("annotations") or {}).get(LOCK_INFO, "{}"))
    rows = "".join(f"  {name + ':':<11}{info.get(name, '')}\n" for name in INFO)
    return said("already_locked", rows=rows, LOCKED=said("locked"))


def _unpacked(text: str) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)
    try:
        data = unpacker.decompress(base64.b64decode(text), MOST_BYTES)
    except (ValueError, zlib.error) as error:
        raise failure("failed_to_load_state_2") from error
    if unpacker.unconsumed_tail:
        raise failure("failed_to_load_state", it=MOST_BYTES >> 20)
    return data


Backend = Local | InCluster
