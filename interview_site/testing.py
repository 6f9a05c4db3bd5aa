"""A pytest plugin that is loaded before the settings: every test process gets a data folder of its own."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

_folder = tempfile.mkdtemp(prefix="faultline-test-")
atexit.register(shutil.rmtree, _folder, ignore_errors=True)
# What a developer has exported for an installation is not for the tests. DATABASE_URL is: they run on PostgreSQL too.
for _name in (
    *("BIND", "PUBLIC_HOST", "PORT", "PUBLIC_PORT", "PUBLIC_HTTPS", "KUBESIM_PORT", "KUBESIM_URL", "REDIS_URL"),
    *("RUN_DIR", "WORKERS", "DEBUG", "TRUSTED_PROXIES", "TIME_ZONE", "SECRET_KEY", "SECRET_KEY_FILE"),
):
    os.environ.pop(_name, None)
os.environ["DATA_DIR"] = _folder
os.mkdir(os.path.join(_folder, "static"))  # WhiteNoise warns where there is none, and warnings are errors
