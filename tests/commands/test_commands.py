# SPDX-License-Identifier: Apache-2.0
"""What the commands print, and their exit codes."""

import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

import tfjax_batches as tjb
from tests.made_datasets import Numbers
from tfjax_batches.commands import main
from tfjax_batches.reading.cache_file import cache_paths, split_stem


@pytest.fixture
def numbers_copy(numbers_folder: str, tmp_path: Path) -> Path:
    """A copy of `Numbers`, to be damaged: 23 examples a split, in 3 files."""
    folder = tmp_path / "numbers" / "1.0.0"
    shutil.copytree(numbers_folder, folder, ignore=shutil.ignore_patterns(".*.index"))
    return folder


def train_file(folder: Path, number: int) -> Path:
    return folder / f"numbers-train.tfrecord-0000{number}-of-00003"


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """Return exit code, stdout and stderr of a command."""
    code = main([os.fspath(word) if isinstance(word, Path) else str(word) for word in words])
    out, err = capsys.readouterr()
    return code, out, err


def test_describe_prints_a_dry_run(numbers_folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--global_batch_size=8", "--mesh=data=2,model=2", "--process=3", "--num_epochs=2")
    code, out, _ = run(capsys, "describe", numbers_folder, *words, "--processes=4", "--with_ids")
    layout = tjb.BatchLayout.simulate({"data": 2, "model": 2}, "data", 8, 4)
    loader = tjb.dry_run(numbers_folder, layout, process_index=3, num_epochs=2, with_ids=True)
    assert (code, out) == (0, f"{loader.describe()}\n")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), "on mesh data=1, partition spec P('data')"),
        (("--processes=4",), "4 processes with 4 devices"),
        (("--processes=4", "--devices_per_process=2"), "on mesh data=8"),
        (("--mesh=data=2,model=-1", "--processes=8"), "on mesh data=2 × model=4"),
        (("--mesh=a=2,b=2", "--spec=a+b"), "1 process with 4 devices"),
    ],
)
def test_describe_makes_up_machines(
    numbers_folder: str, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], expected: str
) -> None:
    code, out, _ = run(capsys, "describe", numbers_folder, "--global_batch_size=8", *words)
    assert code == 0
    assert expected in out


def test_preview_prints_values_by_stage(
    numbers_folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "preview", numbers_folder, "--rows=2", "--shuffle=none")
    assert code == 0
    assert out.startswith("decoded\n")
    lines = {line.split()[0]: line.split() for line in out.splitlines()[2:]}
    assert lines["number"] == ["number", "int64[2]", "0", "1", "0", "|", "1"]
    assert lines["vector"][1:5] == ["float32[2,", "3]", "-1", "1"]


def test_describe_and_preview_take_a_mixture(
    numbers_folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sources = repr({name: {"dataset": numbers_folder, "split": name} for name in ("train", "test")})
    fields = [f"--sources={sources}", "--weights={'train': 3, 'test': 1}"]
    code, out, _ = run(capsys, "describe", *fields, "--global_batch_size=8", "--processes=2")
    assert code == 0
    assert "mixture of 2 sources" in out
    assert "75 %" in out
    code, out, _ = run(capsys, "preview", *fields, "--rows=2")
    assert code == 0
    assert "train: decoded" in out
    assert "test: decoded" in out
    code, _, err = run(capsys, "describe", numbers_folder, *fields, "--global_batch_size=8")
    assert code == 2
    assert "The datasets of a mixture are in its sources" in err


def test_plan_prints_requests_and_times_by_order(
    numbers_folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    machines = ["--processes=4", "--latency=10ms", "--bandwidth=1MB/s", "--read_threads=2"]
    words = ["plan", numbers_folder, "--global_batch_size=8", *machines]
    code, out, _ = run(capsys, *words, "--shuffle=block", "--block_size=4", "--block_columns=8")
    assert code == 0
    assert re.search(r"shuffle='global' +2 +10 ms +10 ms .* 23\n", out)  # 2 requests, 2 at a time
    assert re.search(r"shuffle='block' +1\.22 +6\.09 ms +\S+ ms .* 14\n", out)  # of 6 blocks + 8
    assert "shuffle='block' reads 1.64 times as fast" in out
    code, out, _ = run(capsys, *words)
    assert "nearly as fast" in out  # blocks of one example
    with pytest.raises(SystemExit):
        main([*words, "--latency=3"])
    assert "such as 30ms or 0.5s; got '3'" in capsys.readouterr().err


def test_index_makes_what_is_missing_and_tells_where(
    numbers_copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "index", numbers_copy)
    assert code == 0
    path = cache_paths(split_stem(os.fspath(train_file(numbers_copy, 0))), "index")[0]
    assert f"numbers/1.0.0 train: 23 records in 3 files; index in {path}\n" in out
    assert "test: 23 records in 3 files" in out
    assert os.path.exists(path)


def test_index_in_parts_makes_the_whole(
    numbers_folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(numbers_folder, tmp_path / "1.0.0")
    for path in folder.glob(".*index*"):
        path.unlink()
    for part in ("0/2", "1/2"):
        code, out, _ = run(capsys, "index", folder, "--split=train", f"--part={part}")
        assert code == 0
        assert f"part {part}: {folder}" in out
    assert len([*folder.glob(".*-of-00002")]) == 2
    code, out, _ = run(capsys, "index", folder, "--split=train")
    assert code == 0
    assert "23 records in 3 files; index in " in out
    assert [path.name for path in folder.glob(".*index*")] == [
        ".numbers-train.tfrecord.tfjax_batches.index"
    ]
    with pytest.raises(SystemExit):
        main(["index", str(folder), "--part=2/2"])
    assert "expected K/N, 0 <= K < N, such as 3/64; got '2/2'" in capsys.readouterr().err


def test_verify_of_a_whole_dataset_says_so(
    numbers_copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "verify", numbers_copy)
    assert (code, out) == (
        0,
        "numbers/1.0.0 train: 23 of 23 records in 3 files intact\n"
        "numbers/1.0.0 test: 23 of 23 records in 3 files intact\n",
    )


def test_verify_names_each_damaged_record_and_goes_on(
    numbers_copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = train_file(numbers_copy, 1)
    data = bytearray(path.read_bytes())
    data[40] ^= 1  # within the first record
    data[-10] ^= 1  # within the last one
    path.write_bytes(data)
    code, out, _ = run(capsys, "verify", numbers_copy)
    assert code == 1
    lines = [line for line in out.splitlines() if "match its stored checksum" in line]
    assert len(lines) == 2
    assert lines[0].startswith("train: ")
    assert f"record 0 of {path}, at byte 0: the data differ" in lines[0]
    assert "train: 21 of 23 records in 3 files intact" in out
    assert "test: 23 of 23" in out
    assert run(capsys, "verify", numbers_copy, "--split=test")[0] == 0


@pytest.mark.parametrize("damage", ["cut", "missing", "length", "high byte of a length"])
def test_verify_of_a_file_without_its_records_checks_the_others(
    numbers_copy: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    path, other = train_file(numbers_copy, 0), train_file(numbers_copy, 2)
    in_file = tfds.builder_from_directory(numbers_copy).info.splits["train"].shard_lengths[0]
    data = bytearray(path.read_bytes())
    if damage == "cut":
        path.write_bytes(data[:-3])
    elif damage == "missing":
        path.unlink()
    else:
        data[0 if damage == "length" else 7] ^= 0x80
        path.write_bytes(data)
    damaged = bytearray(other.read_bytes())
    damaged[40] ^= 1
    other.write_bytes(damaged)
    code, out, _ = run(capsys, "verify", numbers_copy, "--split=train")
    assert code == 1
    lines = out.splitlines()
    assert len(lines) == 3
    assert os.fspath(path) in lines[0]
    assert f"record 0 of {other}" in lines[1]
    assert lines[2] == f"numbers/1.0.0 train: {23 - in_file - 1} of 23 records in 3 files intact"


def test_verify_and_index_of_array_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    builder = Numbers(num_examples=5, data_dir=tmp_path, file_format="array_record")
    builder.download_and_prepare()
    code, out, _ = run(capsys, "verify", builder.data_path)
    assert (code, out.count("5 of 5 records in 1 file intact")) == (0, 2)
    assert "index in the files themselves" in run(capsys, "index", builder.data_path)[1]
    (path,) = Path(builder.data_path).glob("*train*array_record*")
    path.unlink()
    code, out, _ = run(capsys, "verify", builder.data_path, "--split=train")
    assert code == 1
    assert len(out.splitlines()) == 2
    assert "numbers/1.0.0 train: 0 of 5 records in 1 file intact" in out
    code, out, err = run(capsys, "index", builder.data_path, "--split=train")
    assert (code, out) == (2, "")
    assert os.fspath(path) in err
    path.touch()
    assert run(capsys, "index", builder.data_path, "--split=train")[0] == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("describe", "digts", "--global_batch_size=8"), "Did you mean 'digits'?"),
        (("describe", "digits"), "global_batch_size must be an integer"),
        (("verify", "{numbers}", "--split=tran"), "Did you mean 'train'?"),
        (("index", "/nowhere"), "/nowhere cannot be read"),
        (("preview", "{numbers}", "--features=nmber"), "Did you mean 'number'?"),
        (
            ("describe", "{numbers}", "--global_batch_size=8", "--processes=0"),
            "sizes of at least 1",
        ),
        (("preview", "{numbers}", "--rows=0"), "got 0"),
        (("describe", "{numbers}", "--global_batch_size=8", "--spec=dat"), "Did you mean 'data'?"),
        (("describe", "{numbers}", "--global_batch_size=9", "--mesh=data=2"), "is 8 or 10"),
        (
            ("describe", "{numbers}", "--global_batch_size=8", "--process=1"),
            "0 <= process < 1; got",
        ),
    ],
)
def test_command_that_cannot_be_done_says_why_and_ends_with_2(
    numbers_folder: str,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    message: str,
) -> None:
    code, out, err = run(capsys, *(word.format(numbers=numbers_folder) for word in words))
    assert (code, out) == (2, "")
    assert err.startswith(f"python -m tfjax_batches {words[0]}: error: ")
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "the following arguments are required: COMMAND"),
        (("verfy",), "'verify'"),
        (("describe", "d", "--shufle=none"), "--shufle=none. Did you mean 'shuffle'?"),
        (("describe", "d", "--proceses=2"), "Did you mean 'processes'?"),
        (("verify", "d", "--splt", "train"), "--splt train. Did you mean 'split'?"),
        (("describe",), "a dataset or --sources is required"),
        (("describe", "d", "--seed=-1"), "--seed: seed must be an integer of at least 0"),
        (("describe", "d", "--seed=x"), "--seed: expected an integer; got 'x'"),
        (("describe", "d", "--shuffle=globl"), "--shuffle: shuffle must be one of"),
    ],
)
def test_words_that_make_no_sense_end_with_2(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("command", ["describe", "preview", "index", "verify"])
def test_help_of_each_command_shows_an_example(
    capsys: pytest.CaptureFixture[str], command: str
) -> None:
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    assert f"\n  python -m tfjax_batches {command} " in capsys.readouterr().out


def test_help_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "\n  python -m tfjax_batches describe digits " in capsys.readouterr().out


@pytest.mark.parametrize("options", [(), ("--num_epochs=1", "--remainder=pad")])
def test_preview_of_a_small_split_prints_all_of_it(
    numbers_folder: str, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    code, out, _ = run(capsys, "preview", numbers_folder, "--split=train[:3]", *options)
    assert code == 0
    assert "int64[3]" in out


def test_program_runs_as_a_module_without_devices(numbers_folder: str) -> None:
    """There is no such platform: whatever asks JAX for a device fails."""
    env = {**os.environ, "JAX_PLATFORMS": "no_such_platform"}
    command = [sys.executable, "-m", "tfjax_batches", "describe", numbers_folder]
    result = subprocess.run(
        [*command, "--global_batch_size=8", "--processes=2"],
        env=env,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    assert "2 processes with 2 devices" in result.stdout


def test_help_loads_no_framework() -> None:
    code = (
        "import sys\n"
        "from tfjax_batches.commands import main\n"
        "try: main(['verify', '--help'])\n"
        "except SystemExit: print([m for m in ('jax', 'tensorflow') if m in sys.modules])\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.endswith("[]\n"), result.stderr


def test_ops_prints_each_op_with_its_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops"]) == 0
    shown = capsys.readouterr().out
    assert "\nflip_lr(key='image')\n    " in shown
    assert "decode_random_crop(size" in shown


def test_verify_names_record_files_that_the_metadata_does_not_know(
    numbers_copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left_over = numbers_copy / "numbers-train.tfrecord-00000-of-00002"
    left_over.touch()
    (numbers_copy / "notes.txt").touch()
    code, out, _ = run(capsys, "verify", numbers_copy, "--split=test")
    assert code == 0
    assert out.splitlines()[1:] == [
        f"numbers/1.0.0: {left_over} is not in the metadata, and is never read"
    ]


@pytest.mark.parametrize("file_format", ["tfrecord", "array_record"])
def test_verify_decode_names_images_of_another_size_than_the_metadata_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], file_format: str
) -> None:
    def image(number: int) -> io.BytesIO:
        height = 5 if number in (21, 37) else 4
        return io.BytesIO(tf.io.encode_png(np.zeros((height, 4, 3), np.uint8)).numpy())

    builder = tfds.dataset_builders.store_as_tfds_dataset(
        name="images",
        version="1.0.0",
        features=tfds.features.FeaturesDict({"image": tfds.features.Image(shape=(4, 4, 3))}),
        split_datasets={"train": [(number, {"image": image(number)}) for number in range(40)]},
        data_dir=tmp_path,
        file_format=file_format,
        disable_shuffling=True,
    )
    (path,) = Path(builder.data_path).glob("*-train*")
    assert run(capsys, "verify", builder.data_path)[0] == 0
    code, out, _ = run(capsys, "verify", builder.data_path, "--decode")
    assert code == 1
    first, second, summary = out.splitlines()
    assert f"record 21 of {path}" in first
    assert "its 'image' must be uint8 of shape (4, 4, 3): Tensor's shape (5, 4, 3) is" in first
    assert f"record 37 of {path}" in second
    assert summary == "images/1.0.0 train: 38 of 40 records in 1 file decoded"
    assert run(capsys, "verify", builder.data_path, "--decode", "--split=train[:21]")[0] == 0
