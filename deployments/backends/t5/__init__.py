"""T5 evaluators, computed without padding."""
