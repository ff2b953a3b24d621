"""Knowledge bases of atomic pairs: read from a corpus or imported, judged, and written down."""
