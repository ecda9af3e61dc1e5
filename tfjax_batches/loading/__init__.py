# SPDX-License-Identifier: Apache-2.0
"""The parts put together: build, BatchLoader, BatchIterator, state, agreement.

The one room that asks JAX which process this is and that talks to other processes.
"""
