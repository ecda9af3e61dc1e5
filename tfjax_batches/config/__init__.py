# SPDX-License-Identifier: Apache-2.0
"""What a user says: the fields of a run, checked as a whole. Knows no framework."""
