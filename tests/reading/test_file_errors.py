# SPDX-License-Identifier: Apache-2.0
"""Errors of files say what is wrong, and a fix that works."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from tests.made_datasets import Numbers
from tfjax_batches.errors import RecordError
from tfjax_batches.reading.formats import open_reader
from tfjax_batches.reading.split import open_split


@contextmanager
def no_more_files() -> Iterator[None]:
    """Let this process open no file."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
        try:
            while True:
                opened.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            yield
    finally:
        for descriptor in opened:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.parametrize("file_format", ["tfrecord", "array_record"])
def test_read_without_a_free_descriptor_names_the_limit_and_the_command(
    tmp_path: Path, file_format: str
) -> None:
    builder = Numbers(num_examples=3, data_dir=tmp_path, file_format=file_format)
    builder.download_and_prepare()
    reader = open_reader(open_split(builder, "train"))
    if file_format == "tfrecord":
        reader.open()  # the index, not the files
    with no_more_files(), pytest.raises(RecordError) as caught:
        reader.read(np.arange(3))
    message = str(caught.value)
    assert "is one too many: [Errno 24] Too many open files" in message
    assert "may have 256 open" in message
    assert "`ulimit -n 1024`" in message
    assert "Restore" not in message
    assert len(reader.read(np.arange(3))) == 3
