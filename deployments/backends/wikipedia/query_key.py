"""What makes two queries the same."""

import json
import unicodedata
from collections.abc import Mapping
from hashlib import blake2b

_CASELESS = {"gsrsearch", "srsearch"}
"""Full-text queries, in which case means nothing; titles keep theirs."""


def query_key(api_url: str, parameters: Mapping[str, str]) -> bytes:
    """16 bytes that name a query, and tell nobody what was asked."""
    canonical = [(name, _canonical(name, value)) for name, value in sorted(parameters.items())]
    return blake2b(json.dumps([api_url, *canonical]).encode(), digest_size=16).digest()


def _canonical(name: str, value: str) -> str:
    value = unicodedata.normalize("NFC", value)
    return " ".join(value.casefold().split()) if name in _CASELESS else value
