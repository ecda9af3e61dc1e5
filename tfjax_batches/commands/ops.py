# SPDX-License-Identifier: Apache-2.0
"""`ops`: the ops that `preprocess` can name."""

import argparse

from tfjax_batches.preprocess.registry import describe_ops


def run(arguments: argparse.Namespace) -> int:
    """Print the ops, each with its arguments."""
    del arguments
    print(describe_ops())
    return 0
