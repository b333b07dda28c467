"""Faults planted in the production code; each must make a test fail."""
