# SPDX-License-Identifier: Apache-2.0
"""A split expression holds the examples that it says, or is refused."""

import dataclasses
import functools
from fractions import Fraction
from typing import Any

import pytest
import tensorflow_datasets as tfds
from hypothesis import given
from hypothesis import strategies as st

from tfjax_batches.errors import SplitError
from tfjax_batches.reading.split_expression import resolve_split

TEMPLATE = tfds.core.ShardedFileTemplate(
    data_dir="/d", dataset_name="made", filetype_suffix="tfrecord"
)


def make_splits(**shard_lengths: list[int]) -> tfds.core.SplitDict:
    infos = [
        tfds.core.SplitInfo(
            name=name, shard_lengths=lengths, num_bytes=0, filename_template=TEMPLATE
        )
        for name, lengths in shard_lengths.items()
    ]
    return tfds.core.SplitDict(infos)


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of a split as a user writes it; `unit` and `rounding` as TFDS calls them."""

    start: int | None
    stop: int | None
    unit: str
    rounding: str = "closest"

    def text(self) -> str:
        unit = "" if self.unit == "abs" else self.unit
        bounds = ["" if b is None else f"{b}{unit}" for b in (self.start, self.stop)]
        return "train" if bounds == ["", ""] else f"train[{':'.join(bounds)}]"

    def instruction(self) -> tfds.core.ReadInstruction:
        return tfds.core.ReadInstruction(
            "train", from_=self.start, to=self.stop, unit=self.unit, rounding=self.rounding
        )

    def examples(self, lengths: list[int]) -> range | None:
        """Return the examples that it says, counted without TFDS; None: no such part."""
        count = sum(lengths)
        first = self._place(0 if self.start is None else self.start, lengths)
        last = count if self.stop is None else self._place(self.stop, lengths)
        if first is None or last is None or last < first:
            return None
        return range(first, last)

    def _place(self, bound: int, lengths: list[int]) -> int | None:
        count = sum(lengths)
        if self.unit == "shard":
            if not -len(lengths) <= bound:
                return None
            return sum(lengths[:bound])  # a bound behind the last shard is the end
        if self.unit == "%" and self.rounding == "closest":
            size = round(Fraction(abs(bound) * count, 100))
        elif self.unit == "%":
            size = abs(bound) * (count // 100)
        else:
            size = abs(bound)
        if size > count or (bound < 0 and size == 0):
            return None
        return count - size if bound < 0 else size


UNITS = {"abs": 260, "%": 100, "shard": 5}


@st.composite
def parts(draw: st.DrawFn, rounding: str = "closest") -> Part:
    unit = draw(st.sampled_from(sorted(UNITS)))
    bounds = st.none() | st.integers(-UNITS[unit], UNITS[unit])
    if draw(st.booleans()):  # such as -1%: rounds to nothing
        bounds = st.none() | st.integers(-2, 2)
    return Part(draw(bounds), draw(bounds), unit, rounding)


def is_read_as_all(part: Part) -> bool:
    """Return whether TFDS reads an empty part as the whole split: that is refused."""
    return part.unit == "shard" and part.stop == 0 and (part.start or 0) >= 0


def check(written: Any, drawn: list[Part], lengths: list[int]) -> None:
    said = [None if is_read_as_all(part) else part.examples(lengths) for part in drawn]
    splits = make_splits(train=lengths, test=[3])
    if None in said:
        with pytest.raises(SplitError):
            resolve_split(splits, written, "made")
        return
    found = resolve_split(splits, written, "made")
    assert [range(each.start, each.stop) for each in found] == said
    # What is read is what TFDS reads: the same as it counts itself.
    assert splits[written].num_examples == sum(len(each) for each in said if each is not None)


LENGTHS = st.lists(st.integers(1, 100), min_size=1, max_size=4)


@given(st.lists(parts(), min_size=1, max_size=3), LENGTHS)
def test_resolve_split_of_text_gives_what_it_says_or_refuses(
    drawn: list[Part], lengths: list[int]
) -> None:
    drawn = [
        # TFDS reads an end of 0shard as the end of the split, which `train[-1shard]` needs.
        dataclasses.replace(part, stop=None)
        if part.unit == "shard" and part.stop == 0 and (part.start or 0) < 0
        else part
        for part in drawn
    ]
    check("+".join(part.text() for part in drawn), drawn, lengths)


@given(st.lists(parts("pct1_dropremainder"), min_size=1, max_size=3), LENGTHS)
def test_resolve_split_of_read_instructions_gives_what_they_say_or_refuses(
    drawn: list[Part], lengths: list[int]
) -> None:
    lengths = [100, *lengths]  # TFDS refuses that rounding below 100 examples
    drawn = [part for part in drawn if part.unit != "shard"] or [Part(1, 2, "abs")]
    written = functools.reduce(lambda a, b: a + b, [part.instruction() for part in drawn])
    check(written, drawn, lengths)


TEN_IN_THREE = [4, 3, 3]


@pytest.mark.parametrize(
    ("split", "texts"),
    [
        ("train[5:4]", ["must not end before it starts", "train[5:4], of 10", "Swap"]),
        ("train[50%:40%]", ["a part here is train[5:4]", "Swap"]),
        ("train[-2:-3]", ["train[8:7]"]),
        ("train[2shard:1shard]", ["train[7:4]"]),
        ("train[:3]+train[5:4]", ["train[5:4]", "split='train[:3]+train[5:4]' of made"]),
        (tfds.core.ReadInstruction("train", from_=5, to=4), ["train[5:4]", "Swap"]),
        (tfds.even_splits("train[5:4]", 2)[0], ["train[5:4]", "Swap"]),
        ("train[-1%:]", ["-1% of train (10 examples) rounds to none", "train[-1:]"]),
        ("train[:-4%]", ["-4% of train", "train[-1:]"]),
        ("train[-2%:-1%]", ["-2% of train", "train[-1:]"]),
        ("test+train[-1%:]", ["-1% of train"]),
        (tfds.even_splits("train[-1%:]", 2)[1], ["-1% of train"]),
        ("train[:0shard]", ["train[:0shard] as all of train", "Write train,"]),
        ("train[:-4shard]", ["within the 3 shards of train; got -4shard", "at most 3"]),
        ("train[5:50%]", ["TFDS reads 'train[5:50%]' as [5%:50%]", "same unit at both"]),
        ("train[1shard:50%]", ["one unit", "[1shard:50shard]"]),
        (tfds.core.ReadInstruction("train", to=2.5), ["whole numbers", "train[0:2.5]"]),
        ("train[:20]", ["'train[:20]' does not exist in made", "20"]),
        (
            tfds.core.ReadInstruction("train", to=5, unit="%", rounding="pct1_dropremainder"),
            ["less than 100", "train (10)"],
        ),
    ],
)
def test_resolve_split_that_tfds_reads_otherwise_is_refused(split: Any, texts: list[str]) -> None:
    with pytest.raises(SplitError) as caught:
        resolve_split(make_splits(train=TEN_IN_THREE, test=[5]), split, "made")
    for text in texts:
        assert text in str(caught.value)


@pytest.mark.parametrize(
    ("split", "resolved"),
    [
        ("all", ["train[0:10]", "test[0:5]"]),
        ("all+train[:1]", ["train[0:10]", "test[0:5]", "train[0:1]"]),
        ("train[:0]+train[5:]", ["train[0:0]", "train[5:10]"]),
        ("train[0:50%]", ["train[0:5]"]),
        ("train[-1shard]", ["train[7:10]"]),
        ("train[1shard]", ["train[4:7]"]),
        (tfds.Split.TRAIN, ["train[0:10]"]),
        (tfds.core.ReadInstruction("train", to=5) + "test", ["train[0:5]", "test[0:5]"]),
        (tfds.even_splits("train", 3)[0], ["train[0:4]"]),
        (tfds.even_splits("train+test", 2)[1], ["train[5:10]", "test[3:5]"]),
        (tfds.even_splits(tfds.even_splits("train", 2)[1], 2)[1], ["train[8:10]"]),
        (tfds.split_for_jax_process("train", process_index=1, process_count=3), ["train[4:7]"]),
    ],
)
def test_resolve_split_takes_each_form_of_tfds(split: Any, resolved: list[str]) -> None:
    found = resolve_split(make_splits(train=TEN_IN_THREE, test=[5]), split, "made")
    assert list(map(str, found)) == resolved


@pytest.mark.parametrize("name", ["all", "train.100"])
def test_resolve_split_of_a_name_that_is_no_expression_is_that_split(name: str) -> None:
    splits = make_splits(**{name: [3], "train": [5]})
    assert list(map(str, resolve_split(splits, name, "made"))) == [f"{name}[0:3]"]
