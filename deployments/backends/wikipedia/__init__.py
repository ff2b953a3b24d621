"""Knowledge searching in a MediaWiki such as Wikipedia."""
