# SPDX-License-Identifier: Apache-2.0
"""The library's ops, each a function under `@op`. Importing this package fills the table of ops.

An op returns a `MapBatches`. It raises ConfigError itself, FeatureError when `build` traces it.
"""

from tfjax_batches.preprocess.ops import decode as decode
from tfjax_batches.preprocess.ops import feature as feature
from tfjax_batches.preprocess.ops import image as image
from tfjax_batches.preprocess.ops import label as label
from tfjax_batches.preprocess.ops import randaugment as randaugment
from tfjax_batches.preprocess.ops import resizing as resizing
from tfjax_batches.preprocess.ops import token as token
from tfjax_batches.preprocess.ops import value as value
