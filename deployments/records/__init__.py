"""Decision records: what an answer was decided by, kept for a while, and decided again."""
