# SPDX-License-Identifier: Apache-2.0
"""All that must be the same however four devices are spread over processes, in one launch.

Arguments: the folder of `Numbers`, one where no dataset is, the path of a state, a folder of
folders of `Numbers` by size, and the folder of `Things`.
"""

import sys
from pathlib import Path

from tests.multiprocess.programs import (
    check_batches,
    evaluate_exactly,
    go_on_from_state,
    transform_alike,
)
from tfjax_batches import launch


def main() -> None:
    launch.initialize()
    numbers, empty, state, sizes, things = sys.argv[1:]
    check_batches.run(numbers, empty)
    go_on_from_state.run(numbers, Path(state))
    evaluate_exactly.run(Path(sizes), things)
    transform_alike.run(numbers)


if __name__ == "__main__":
    main()
