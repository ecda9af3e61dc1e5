# SPDX-License-Identifier: Apache-2.0
"""The release. In a file of its own, so that setup.cfg and saved states can read it."""

__version__ = "0.1.0"
