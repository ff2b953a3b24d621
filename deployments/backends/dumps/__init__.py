"""MediaWiki XML dumps: read as a stream, and turned into the pages of a snapshot."""
