"""Measures Troupe beside its peers. `python -m benchmarks --help`, or `make bench`."""
