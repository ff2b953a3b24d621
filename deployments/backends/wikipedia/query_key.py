"""What makes two queries the same."""

import unicodedata
from collections.abc import Mapping
from hashlib import blake2b

_CASELESS = {"gsrsearch", "srsearch"}
"""Full-text queries, in which case means nothing; titles keep theirs."""


def query_key(api_url: str, parameters: Mapping[str, str]) -> bytes:
    """16 bytes that name a query, and tell nobody what was asked."""
    digest = blake2b(api_url.encode(), digest_size=16)
    for name, value in sorted(parameters.items()):
        canonical = unicodedata.normalize("NFC", value)
        canonical = " ".join(canonical.casefold().split()) if name in _CASELESS else canonical
        digest.update(f"\0{name}\0{canonical}".encode(errors="surrogatepass"))
    return digest.digest()
