# SPDX-License-Identifier: Apache-2.0
"""Small TFDS datasets that need no download; importing one registers it with TFDS."""
