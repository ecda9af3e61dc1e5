# SPDX-License-Identifier: Apache-2.0
"""Each damaged record is found, and a file that cannot be opened hides no other."""

from pathlib import Path

from tests.reading.writing import write_split
from tfjax_batches.reading.damage import check_files


def test_check_files_finds_each_damaged_record_of_each_file(tmp_path: Path) -> None:
    split = write_split(tmp_path, num_files=3, per_file=300)
    paths = [Path(part.path) for part in split.ranges]
    data = bytearray(paths[0].read_bytes())
    bad = [0, 255, 256, 299]  # in two chunks of reads
    starts = [0]
    for _ in range(300):
        size = int.from_bytes(data[starts[-1] : starts[-1] + 8], "little")
        starts.append(starts[-1] + size + 16)
    for record in bad:
        data[starts[record] + 12] ^= 1
    paths[0].write_bytes(data)
    paths[1].unlink()
    checked: list[int] = []
    results = list(check_files(split, checked.append))
    assert [intact for intact, _ in results] == [296, 0, 300]
    assert [len(errors) for _, errors in results] == [4, 1, 0]
    assert sum(checked) == 900
    for record, error in zip(bad, results[0][1], strict=True):
        assert f"record {record} of {paths[0]}, at byte {starts[record]}" in str(error)
    assert str(paths[1]) in str(results[1][1][0])
