# SPDX-License-Identifier: Apache-2.0
"""Host batch → global jax.Array → double buffer. JAX lives here, datasets do not."""
