"""Attributions of the evaluator's scores, and what they say over a data set."""
