"""How long simulated things take, in seconds, in one place."""

SANDBOX_S = 0.02
PULL_S, PULL_BYTES_PER_S = 0.3, 80e6
"""The seconds of a registry's answers, and the compressed bytes that a node loads and unpacks in a second."""
PULL_FAILURE_S = 0.1
PULL_TIMEOUT_S = 30.0
"""How long the runtime waits for a registry that does not answer."""
START_S = 0.03
PLEG_S = 0.1
KILL_S = 0.05

BACKOFF_FIRST_S = 10.0
BACKOFF_CAP_S = 300.0
BACKOFF_RESET_S = 600.0
BACKOFF_EVENT_S = 14.0
"""A kubelet looks at a pod in back-off again after about this long, and records the event again."""

CONFIG_RETRY_S = 12.0
"""When a container that could not be made from its configuration is tried again."""
MOUNT_FIRST_S, MOUNT_CAP_S = 0.5, 122.0
"""The wait between tries to mount a volume: doubling."""

LEASE_S = 40
HEARTBEAT_S = 10.0
STATUS_REPORT_S = 300.0
DEVICES_S = 1.0
"""From a change of a device's health to its showing on the node."""
REBOOT_S = 75.0
"""From the moment a machine is turned off until its kubelet speaks again."""
RUNTIME_DOWN_S, PLEG_SILENT_S = 30.0, 180.0
"""After so long without the container runtime the kubelet says that it is down; that it lists nothing any more."""
IDLE_S = 10.0
"""When what a kubelet cannot do now is looked at again."""


def pull_s(missing: int, given: float | None = None) -> float:
    """Return how long a pull takes that has so many bytes to load; ``given``: as long as its image says."""
    return given if given is not None and missing else PULL_S + missing / PULL_BYTES_PER_S
