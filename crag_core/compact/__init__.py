"""CompactRAG: multi-hop answers with two completions, from atomic question-answer pairs."""
