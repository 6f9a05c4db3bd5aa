"""torch.backends."""

import types

from torch import version


def cudnn_version():
    """Return cuDNN's number, of which the major version has counted 10,000 since 9."""
    major, minor, patch = version.numbers("cudnn")
    return major * (10000 if major > 8 else 1000) + minor * 100 + patch


cudnn = types.SimpleNamespace(version=cudnn_version, is_available=lambda: True)
cuda = types.SimpleNamespace(matmul=types.SimpleNamespace(allow_tf32=False), is_built=lambda: True)
mps = types.SimpleNamespace(is_available=lambda: False, is_built=lambda: False)
