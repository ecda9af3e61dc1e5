# SPDX-License-Identifier: Apache-2.0
"""Four CPU devices for every test, and datasets that are prepared once.

`TEST_TF_THREADS=1 scripts/test` limits TensorFlow to one inter-op and one intra-op thread.
"""

import os

# Before JAX and TensorFlow are imported, which read these once.
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# Compiling takes most of the time of many tests, and these check data, not speed.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
if threads := os.environ.get("TEST_TF_THREADS"):
    # Unlike tf.config, these also reach the processes that tests start.
    os.environ["TF_NUM_INTEROP_THREADS"] = os.environ["TF_NUM_INTRAOP_THREADS"] = threads

import pytest
import tensorflow_datasets as tfds
from hypothesis import settings

import tfjax_batches.datasets.digits  # noqa: F401 - registers the name
from tests.made_datasets import make_numbers, make_things

# The machine is shared: a slow example is no error of the code.
settings.register_profile("default", deadline=None, derandomize=True)
settings.load_profile("default")


@pytest.fixture(scope="session")
def numbers_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Folder of `Numbers` with 23 examples a split, in 3 files."""
    return make_numbers(tmp_path_factory.mktemp("numbers"), num_examples=23, num_files=3)


@pytest.fixture(scope="session")
def things_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Folder of `Things` with 11 examples."""
    return make_things(tmp_path_factory.mktemp("things"))


@pytest.fixture(scope="session")
def digits_data_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A TFDS folder that holds digits."""
    data_dir = str(tmp_path_factory.mktemp("tfds"))
    tfds.builder("digits", data_dir=data_dir).download_and_prepare()
    return data_dir
