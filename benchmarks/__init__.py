"""Benchmarks: quality over the HTTP API."""
