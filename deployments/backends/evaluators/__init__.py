"""The retrieval evaluators: their manifests, and a scorer for each kind."""
