# SPDX-License-Identifier: Apache-2.0
"""What changes how records are read, and no value."""

import dataclasses

from tfjax_batches.config.reading import Reading
from tfjax_batches.reading.chunk_cache import ChunkCache
from tfjax_batches.reading.read_pool import ReadPool
from tfjax_batches.reading.tfrecord.partial_scan import WHOLE, Part


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReaderOptions:
    """What changes how records are read, and no value.

    Attributes:
        verify_crc: Whether to compare records with their checksums.
        reading: How bytes are read.
        pool: The threads that wait for storage, shared by the readers of a loader.
        part: Which process this is, of those that open the same files at a time.
        cache: Keeps what is read in ranges. None: nothing is kept.
    """

    verify_crc: bool = True
    reading: Reading = Reading.AUTO
    pool: ReadPool = dataclasses.field(default_factory=ReadPool)
    part: Part = WHOLE
    cache: ChunkCache | None = None
