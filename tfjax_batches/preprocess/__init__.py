# SPDX-License-Identifier: Apache-2.0
"""What is done to decoded features, a group of examples at a time."""
