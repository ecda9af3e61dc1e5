# SPDX-License-Identifier: Apache-2.0
"""`python -m tfjax_batches`: see `tfjax_batches.commands`."""

import sys

from tfjax_batches.commands import main

sys.exit(main())
