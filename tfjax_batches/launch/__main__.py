# SPDX-License-Identifier: Apache-2.0
"""`python -m tfjax_batches.launch`."""

import sys

from tfjax_batches.launch.launcher import main

if __name__ == "__main__":
    sys.exit(main())
