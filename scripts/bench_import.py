# SPDX-License-Identifier: Apache-2.0
"""Measures the import of the package, and `build` for a dataset with 16 features.

python scripts/bench_import.py --rounds=5

Each round starts a new Python for each import. It prints medians, and their ratio to the import of
jax, tensorflow and tensorflow_datasets, which is what counts.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

FEATURES = 16

IMPORTS = {
    "nothing": "",
    "import tfjax_batches": "import tfjax_batches",
    "… and plan a layout": "import tfjax_batches as t; t.BatchLayout.simulate({'d': 2}, 'd', 4, 2)",
    "… and tfjax_batches.build": "import tfjax_batches; tfjax_batches.build",
    "import jax, tensorflow, tfds": "import jax, tensorflow, tensorflow_datasets",
}
BASE = "import jax, tensorflow, tfds"

# Times two builds in one process: the first also imports modules of TFDS.
BUILD = """
import json, sys, time
import jax, tfjax_batches
build = tfjax_batches.build
jax.devices()
times = []
for seed in range(2):
    start = time.perf_counter()
    build(sys.argv[1], global_batch_size=64, seed=seed)
    times.append(time.perf_counter() - start)
print(json.dumps(times))
"""


class Sixteen(tfds.core.GeneratorBasedBuilder):
    """16 features of four kinds."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self) -> Any:
        kinds = [
            tfds.features.Image(shape=(8, 8, 3)),
            tfds.features.Tensor(shape=(4,), dtype=np.float32),
            tfds.features.ClassLabel(num_classes=10),
            tfds.features.Tensor(shape=(), dtype=np.int64),
        ]
        features = {f"feature_{i}": kinds[i % len(kinds)] for i in range(FEATURES)}
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(features))

    def _split_generators(self, dl_manager: Any) -> Any:
        return {"train": self._generate_examples()}

    def _generate_examples(self) -> Iterator[tuple[int, dict[str, Any]]]:
        values = [np.zeros((8, 8, 3), np.uint8), np.zeros(4, np.float32), 1, 2]
        for index in range(256):
            yield index, {f"feature_{i}": values[i % len(values)] for i in range(FEATURES)}


def write_dataset(data_dir: str) -> str:
    """Prepare a dataset of `FEATURES` features, and return its versioned folder."""
    builder = Sixteen(data_dir=data_dir)
    builder.download_and_prepare()
    return str(builder.data_path)


def run(code: str, *arguments: str) -> str:
    """Run code in a new Python, and return what it prints."""
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def time_import(code: str) -> float:
    """Return the seconds that imports take in a new Python, without its own start."""
    timed = f"import time; start = time.perf_counter(); {code or 'pass'}\n"
    return float(run(timed + "print(time.perf_counter() - start)"))


def main() -> None:
    """Print the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    rounds = parser.parse_args().rounds
    seconds: dict[str, list[float]] = {name: [] for name in IMPORTS}
    builds: list[list[float]] = []
    with tempfile.TemporaryDirectory() as data_dir:
        folder = write_dataset(data_dir)
        for _ in range(rounds):
            for name, code in IMPORTS.items():
                seconds[name].append(time_import(code))
            builds.append(json.loads(run(BUILD, folder)))
    base = statistics.median(seconds[BASE])
    for name, each in seconds.items():
        median = statistics.median(each)
        print(f"{name:32} {median:8.3f} s  {median / base:6.1%} of {BASE}")
    for name, times in zip(("first", "second"), zip(*builds, strict=True), strict=True):
        print(f"{f'{name} build, {FEATURES} features':32} {statistics.median(times):8.3f} s")


if __name__ == "__main__":
    main()
