"""CompactRAG measured: coverage of its retrieval, robustness of its parsers, its baselines."""
