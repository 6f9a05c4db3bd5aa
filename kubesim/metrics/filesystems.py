"""The parts of /stats/summary that tell of disks and process numbers: what a kubelet decides evictions by."""

from __future__ import annotations

from collections.abc import Callable

from kubesim.errors import Obj
from kubesim.kubelet.eviction import Pressure
from kubesim.kubelet.footprint import ContainerUse, measure
from kubesim.kubelet.layers import Space
from kubesim.shell.share import Disk


def node_stats(watch: Pressure, at: float, stamp: str) -> Obj:
    """Return the node's file system, that of its images and containers, its process numbers and its pods' memory."""
    uses = [measure(worker, at) for worker in watch.workers() if not worker.gone]
    seen = watch.observe(uses)
    room, pids, pods = watch.node.disk.room, seen["pid.available"], seen["allocatableMemory.available"]
    disk = _whole(room, stamp)
    images, used = Space(watch.images.total, 0), Space(room.used, room.entries)
    memory = {"time": stamp, "availableBytes": pods.available, "workingSetBytes": pods.capacity - pods.available}
    memory |= {"usageBytes": pods.capacity - pods.available, "rssBytes": pods.capacity - pods.available}
    return {
        "fs": _fs(used, disk, room.limit),
        "runtime": {
            "imageFs": _fs(images, disk, room.limit, used),
            "containerFs": _fs(images, disk, room.limit, used),
        },
        "rlimit": {"time": stamp, "maxpid": pids.capacity, "curproc": pids.capacity - pids.available},
        "systemContainers": [{"name": "pods", "startTime": stamp, "memory": memory}],
    }


def _whole(room: Disk, stamp: str) -> Obj:
    return {"time": stamp, "capacityBytes": room.limit, "inodes": room.inodes}


def _fs(own: Space, disk: Obj, limit: int, whole: Space | None = None) -> Obj:
    """Return one file system's numbers: what is its ``own``, of a disk of which so much is used as a ``whole``."""
    whole = whole or own
    found = disk | {"availableBytes": max(limit - whole.bytes, 0), "usedBytes": own.bytes}
    return found | {"inodesFree": max(disk["inodes"] - whole.inodes, 0), "inodesUsed": own.inodes}


def pod_stats(watch: Pressure, pod: Obj, stats: Obj, at: float, stamp: str) -> Obj:
    """Return a pod's entry with what it takes of the disk: by container, by volume, and as a whole."""
    worker = next((each for each in watch.workers() if each.record.uid == pod["metadata"]["uid"]), None)
    if worker is None:
        return stats
    use, room = measure(worker, at), watch.node.disk.room
    disk = _whole(room, stamp)

    def fs(own: Space) -> Obj:
        return _fs(own, disk, room.limit, Space(room.used, room.entries))

    by_name = {each.name: each for each in use.containers}
    containers = [_with_files(each, by_name.get(each["name"]), fs) for each in stats["containers"]]
    volumes = [{**fs(own), "name": name} for name, own in use.volumes.items()]
    more: Obj = {"ephemeral-storage": fs(use.disk), "process_stats": {"process_count": use.processes}}
    return {**stats, "containers": containers, **({"volume": volumes} if volumes else {}), **more}


def _with_files(stats: Obj, use: ContainerUse | None, fs: Callable[[Space], Obj]) -> Obj:
    return stats if use is None else {**stats, "rootfs": fs(use.root), "logs": fs(use.logs)}
