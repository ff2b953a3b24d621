"""The backends: one library each behind a Protocol of the core; never Ray, never FastAPI."""
