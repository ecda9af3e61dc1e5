# SPDX-License-Identifier: Apache-2.0
"""Runs scripts/train.py on digits, over a mesh that splits batch and weights."""

import sys

from absl import flags

from tests.multiprocess.launching import REPOSITORY

sys.path.append(str(REPOSITORY / "scripts"))

import train


def main(data_dir: str, num_steps: str) -> None:
    """Train and evaluate; print the summary.

    Args:
        data_dir: The TFDS folder that holds digits.
        num_steps: Training steps.
    """
    # Flags of configs look for their overrides in sys.argv.
    sys.argv = [
        "train.py",
        f"--config={REPOSITORY}/configs/digits.py",
        f"--config.batches.data_dir={data_dir}",
        "--config.mesh=data=2,model=2",
        f"--config.num_steps={num_steps}",
    ]
    train.main(flags.FLAGS(sys.argv))
