# SPDX-License-Identifier: Apache-2.0
"""From records on disk to process-local host batches. TensorFlow lives here; no device does."""
