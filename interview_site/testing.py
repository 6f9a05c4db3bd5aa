"""A pytest plugin that is loaded before the settings: every test process gets a data folder of its own."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

_folder = tempfile.mkdtemp(prefix="faultline-test-")
atexit.register(shutil.rmtree, _folder, ignore_errors=True)
for _name in ("BIND", "PUBLIC_HOST", "PORT", "KUBESIM_PORT", "REDIS_URL", "DEBUG", "PUBLIC_HTTPS", "RUN_DIR"):
    os.environ.pop(_name, None)
os.environ["DATA_DIR"] = _folder
os.mkdir(os.path.join(_folder, "static"))  # WhiteNoise warns where there is none, and warnings are errors
