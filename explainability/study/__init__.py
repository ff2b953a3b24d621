"""The study: what the evaluator looks at, over hundreds of real pairs, with intervals."""
