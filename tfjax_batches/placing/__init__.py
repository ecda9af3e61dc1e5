# SPDX-License-Identifier: Apache-2.0
"""From host batches to global arrays. JAX lives here; no dataset does."""
