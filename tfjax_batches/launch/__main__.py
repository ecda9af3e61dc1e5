# SPDX-License-Identifier: Apache-2.0
"""`python -m tfjax_batches.launch`."""

import signal
import sys

from tfjax_batches.launch.launcher import main

if __name__ == "__main__":
    # Each becomes an exception, so that the launcher ends its processes.
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(signum) != signal.SIG_IGN:  # as under nohup
            signal.signal(signum, lambda number, _: sys.exit(128 + number))
    sys.exit(main())
