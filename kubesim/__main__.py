"""``python -m kubesim``."""

import gc
import os
import sys

gc.disable()  # nothing of what is read now is garbage, and looking for some takes a tenth of the start

# aiohttp reads the machine's certificate authorities as it is imported, another tenth. Nothing here asks for them:
# every connection of ours has a context of its own, made later. OpenSSL looks where this variable says.
AUTHORITIES = "SSL_CERT_FILE"
os.putenv(AUTHORITIES, os.devnull)

import aiohttp  # noqa: E402, F401

if AUTHORITIES in os.environ:  # noqa: TID251 - only to leave it as it was
    os.putenv(AUTHORITIES, os.environ[AUTHORITIES])  # noqa: TID251
else:
    os.unsetenv(AUTHORITIES)

from kubesim.commandline import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
