# SPDX-License-Identifier: Apache-2.0
"""After the batch: compare replicas, gather results of each example once."""
