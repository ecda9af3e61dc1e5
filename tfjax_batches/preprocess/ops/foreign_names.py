# SPDX-License-Identifier: Apache-2.0
"""What ops of other libraries are called, and what to write for them here."""

_OPS_FOR = {
    # big_vision
    "decode_jpeg_and_inception_crop": "decode_random_crop(224, area=(0.05, 1.0))",
    "decode_resize_small": "decode_central_crop(224, resize=256)",
    "onehot": "one_hot(1000)",
    "randaug": "randaugment(2, 10)",
    "vgg_value_range": "normalize((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))",
    # Keras, torchvision and tf.image
    "center_crop": "central_crop(224)",
    "rand_augment": "randaugment(2, 9)",
    "random_cutout": "cutout(16)",
    "random_flip": "flip_lr",
    "random_flip_left_right": "flip_lr",
    "random_horizontal_flip": "flip_lr",
    "random_resized_crop": "inception_crop(224, area=(0.08, 1.0))",
    "rescaling": "value_range(0, 1)",
    "to_tensor": "value_range(0, 1)",
}


def ops_for(name: str) -> str | None:
    """Return the ops that do what one of another library does, in any case; None: unknown.

    Example:
        >>> ops_for("RandomHorizontalFlip"), ops_for("frobnicate")
        ('flip_lr', None)
    """
    return _FOR_PLAIN_NAME.get(_plain(name))


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


_FOR_PLAIN_NAME = {_plain(name): ops for name, ops in _OPS_FOR.items()}
