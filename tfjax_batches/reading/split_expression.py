# SPDX-License-Identifier: Apache-2.0
"""From a split expression to ranges of examples.

TFDS resolves the expression. Some it resolves to other examples than it says, such as
`train[-1%:]` of 30 examples to all of them; these are refused here.
"""

import dataclasses
import re
import textwrap
from collections.abc import Iterator
from typing import Any

import tensorflow_datasets as tfds

from tfjax_batches.errors import SplitError, nearest_hint

_MIXED_UNITS = re.compile(r"\[(-?[\d_.]+)(%|shard)?:(-?[\d_.]+)(%|shard)?\]")


@dataclasses.dataclass(frozen=True, slots=True)
class ExampleRange:
    """Examples `start` to `stop` of a split of the dataset, without the last."""

    split: str
    start: int
    stop: int

    def __str__(self) -> str:
        return f"{self.split}[{self.start}:{self.stop}]"


def resolve_split(
    splits: tfds.core.SplitDict, split: tfds.typing.SplitArg, dataset: str
) -> tuple[ExampleRange, ...]:
    """Return the ranges that an expression adds up, in its order; some may be empty.

    Args:
        splits: The splits of the dataset.
        split: A text such as `"train[:90%]"`, or a split object of TFDS.
        dataset: The dataset's name, for messages.

    Raises:
        SplitError: A split does not exist, the expression is malformed, or TFDS would read other
            examples than it says.
    """
    try:
        for part in _parts(split, splits):
            _check_part(part, splits)
        instruction = tfds.core.ReadInstruction
        whole = isinstance(split, str) and split in splits  # any name, also one like 'all'
        parsed = instruction(split) if whole else instruction.from_spec(split)
        return tuple(_to_range(each, splits) for each in parsed.to_absolute(splits))
    except SplitError as error:
        raise SplitError(f"{error} (This is split={str(split)!r} of {dataset}.)") from error
    except Exception as error:  # TFDS has no class for these
        raise SplitError(
            f"split must be a TFDS split expression; {str(split)!r} does not exist in "
            f"{dataset} ({textwrap.shorten(str(error), 120)}). "
            f"{' '.join([*_hints(split, splits), known_splits(splits)])}"
        ) from error


def known_splits(splits: tfds.core.SplitDict) -> str:
    """Return a sentence that names the splits of a dataset, for messages."""
    counts = ", ".join(f"{name} ({info.num_examples})" for name, info in splits.items())
    return f"Its splits, with their numbers of examples: {counts}; a part is 'train[:90%]'."


def _parts(
    split: tfds.typing.SplitArg, splits: tfds.core.SplitDict
) -> Iterator[tfds.core.ReadInstruction]:
    """Yield the parts that an expression adds up, as they are written; none of `all`."""
    if isinstance(split, str):
        for text in [] if split in splits else re.split(r"\s*\+\s*", split):
            _check_units(text)
            yield from _parts(tfds.core.ReadInstruction.from_spec(text), splits)
    elif isinstance(split, tfds.core.ReadInstruction):
        yield split
    else:  # TFDS's sums have a `left` and a `right`, its even splits a `split`
        inner = [getattr(split, name, None) for name in ("left", "right", "split")]
        for each in inner:
            if each is not None:
                yield from _parts(each, splits)


def _check_units(text: str) -> None:
    if not (found := _MIXED_UNITS.search(text)):
        return
    start, start_unit, stop, stop_unit = found.groups()
    if start_unit != stop_unit and float(start) and float(stop):
        unit = start_unit or stop_unit
        raise SplitError(
            f"Both bounds of a part must have one unit; TFDS reads {text!r} as "
            f"[{start}{unit}:{stop}{unit}]. Write the same unit at both."
        )


def _check_part(part: tfds.core.ReadInstruction, splits: tfds.core.SplitDict) -> None:
    """Raise where TFDS would read other examples than a part says."""
    bounds = [bound for bound in (part.from_, part.to) if bound is not None]
    if part.unit == "%":
        for bound in bounds:
            _check_share(bound, part, splits)
    for each in part.to_absolute(splits):
        _to_range(each, splits)
    if part.unit == "shard":
        _check_shards(part, bounds, splits[part.split_name].num_shards)


def _check_share(
    bound: float, part: tfds.core.ReadInstruction, splits: tfds.core.SplitDict
) -> None:
    """Raise where a share from the end rounds to nothing: TFDS takes it for the start."""
    alone = dataclasses.replace(part, from_=bound, to=None)
    is_zero = alone.to_absolute(splits)[0].from_ is None  # -100% is 0, not None
    if bound < 0 and is_zero:
        name = part.split_name
        raise SplitError(
            f"A share counted from the end must hold at least one example; {bound:g}% of {name} "
            f"({splits[name].num_examples} examples) rounds to none, and TFDS then counts from "
            f"the start. Write a number of examples, such as {name}[-1:], or a larger share."
        )


def _check_shards(part: tfds.core.ReadInstruction, bounds: list[float], num_shards: int) -> None:
    name = part.split_name
    if part.to == 0 and (part.from_ or 0) >= 0:  # train[-1shard] ends there too, for TFDS
        raise SplitError(
            f"A part that ends before the first shard is empty, but TFDS reads {name}[:0shard] "
            f"as all of {name}. Write {name}, or another end."
        )
    if any(bound < -num_shards for bound in bounds):
        raise SplitError(
            f"A bound must lie within the {num_shards} shards of {name}; got {min(bounds)}shard. "
            f"Count back by at most {num_shards}."
        )


def _to_range(absolute: Any, splits: tfds.core.SplitDict) -> ExampleRange:
    """Return a part that TFDS resolved, whose class has no public name."""
    name, start = str(absolute.splitname), absolute.from_ or 0
    stop = splits[name].num_examples if absolute.to is None else absolute.to
    if start != int(start) or stop != int(stop):
        raise SplitError(
            f"Bounds must be whole numbers of examples; a part here is {name}[{start}:{stop}]. "
            "Give integers, or rounding='closest'."
        )
    found = ExampleRange(name, int(start), int(stop))
    if found.start > found.stop:
        raise SplitError(
            f"A part of a split must not end before it starts; a part here is {found}, of "
            f"{splits[name].num_examples} examples. Swap its bounds."
        )
    return found


def _hints(split: tfds.typing.SplitArg, splits: tfds.core.SplitDict) -> list[str]:
    """Return sentences about names in an expression that are no splits."""
    if not isinstance(split, str):
        return []
    bases = [part.split("[")[0].strip() for part in split.split("+")]
    unknown = [base for base in bases if base not in splits]
    if "all" in unknown:
        parts = "+".join(f"{name}[:50%]" for name in splits)
        return [f"'all' has no parts; write those of each split, as in {parts!r}."]
    return [nearest_hint(base, splits) for base in unknown]
