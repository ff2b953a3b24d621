"""The T5 engine against other ways to run the same model: same weights, same pairs, one run."""
