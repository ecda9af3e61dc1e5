# SPDX-License-Identifier: Apache-2.0
"""The parts put together: build, BatchLoader, BatchIterator, state, agreement.

It asks JAX which process this is, and compares the processes once, in `build`.
"""
