"""Metrics: declared, and gathered from every process."""
