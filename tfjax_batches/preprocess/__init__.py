# SPDX-License-Identifier: Apache-2.0
"""What is done to features: transforms, filters and ops, checked before any data is read.

In: feature specs and functions of TensorFlow. Out: functions of groups.

Knows no file and no plan.
"""
