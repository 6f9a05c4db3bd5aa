"""``python -m kubesim``."""

import gc
import sys

gc.disable()  # nothing of what is read now is garbage, and looking for some takes a tenth of the start

from kubesim.commandline import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
