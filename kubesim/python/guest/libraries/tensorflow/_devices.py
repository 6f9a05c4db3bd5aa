"""tf.config and tf.test: the devices that a program sees, and may choose before it has used one."""

import _device

from tensorflow import LogicalDevice, PhysicalDevice, _of_kind, _with_cuda, context, space


def _unmade(what, device=None):
    if context.gpus is not None:
        raise RuntimeError(f"{what} devices cannot be modified after being initialized")
    if device is not None and device not in context.physical():
        raise ValueError(f"Unrecognized device: {device!r}")


def _set_visible(devices, device_type=None):
    devices = [devices] if isinstance(devices, PhysicalDevice) else list(devices or ())
    wanted = [each for each in context.seen() if device_type and each.device_type != device_type] + devices
    if wanted != context.seen():
        for each in devices or (None,):
            _unmade("Visible", each)
    context.visible = wanted


def _set_growth(device, enable):
    if context.growth.get(device, False) != enable:
        _unmade("Physical", device)
    context.growth[device] = enable


def _set_logical(device, configurations):
    _unmade("Virtual", device)
    context.limits[device] = configurations[0].memory_limit << 20


def _logical(kind=None):
    names = [("CPU:0", "CPU"), *((f"GPU:{at}", "GPU") for at, _ in enumerate(context.open()))]
    return _of_kind([LogicalDevice(f"/device:{name}", each) for name, each in names], kind)


def _details(device):
    about = _device.session.facts()["gpus"][int(device.name[-1])] if device.device_type == "GPU" else None
    return {"compute_capability": tuple(about["capability"]), "device_name": about["name"]} if about else {}


def _memory(name):
    gpu = context.open()[int(name[-1])]
    return {"current": gpu.allocated, "peak": gpu.peak}


_known = {
    "list_physical_devices": lambda device_type=None: _of_kind(context.physical(), device_type),
    "set_visible_devices": _set_visible, "set_memory_growth": _set_growth, "get_device_details": _details,
    "get_memory_growth": lambda device: context.growth.get(device, False), "get_memory_info": _memory,
}  # fmt: skip
config = space(
    experimental=space(**_known), **_known, list_logical_devices=_logical, set_logical_device_configuration=_set_logical,
    get_visible_devices=lambda device_type=None: _of_kind(context.seen(), device_type), LogicalDeviceConfiguration=space,
)  # fmt: skip
test = space(
    is_built_with_cuda=lambda: _with_cuda(), is_gpu_available=lambda *args, **more: bool(_logical("GPU")),
    gpu_device_name=lambda: next((each.name for each in _logical("GPU")), ""), is_built_with_gpu_support=lambda: _with_cuda(),
)  # fmt: skip
