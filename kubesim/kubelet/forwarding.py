"""A forwarded port: joined with what listens in the pod, or refused in the runtime's words."""

from __future__ import annotations

import uuid

from kubesim.kubelet.records import container_id
from kubesim.kubelet.status import PodRecord
from kubesim.network.fabric import REASONS, Fabric
from kubesim.shell.errors import NetworkError
from kubesim.streaming.seam import Duplex, RuntimeFailure

FORWARD_ERROR = (
    "error forwarding port {port} to pod {id}, uid : failed to execute portforward in network namespace "
    '"/var/run/netns/cni-{network}": failed to connect to localhost:{port} inside namespace "{id}", '
    "IPv4: dial tcp4 127.0.0.1:{port}: {reason} IPv6 dial tcp6 [::1]:{port}: {reason} "
)


async def join(fabric: Fabric, record: PodRecord, port: int, connection: Duplex) -> None:
    """Join a connection with a port of a pod until it ends. Raises ``RuntimeFailure``."""
    try:
        server = fabric.find(record.ip, port)
    except NetworkError as error:
        number = container_id(record.uid, "", 0)
        text = FORWARD_ERROR.format(port=port, id=number, network=uuid.UUID(number[:32]), reason=REASONS[error.kind])
        raise RuntimeFailure(text) from error
    await server.converse(connection, "127.0.0.1")
