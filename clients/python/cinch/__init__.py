"""Cinch's values without its gateway: opens what gateways have sealed, and seals so that they can open it.

docs/FORMAT.md is the format; cinch.redis brings it to redis-py, cinch.django to Django's cache.
"""

from .dictionary import Dictionary, dictionary_number
from .envelope import (
    DEFAULT_MAX_RAW,
    Header,
    is_sealed,
    open_value,
    parse_header,
    seal_value,
)
from .errors import CinchError, Damaged, DictionaryMissing, DictionaryUnavailable, EnvelopeError, Refused, TooLarge, UnknownCodec

__version__ = "0.1.0"

__all__ = [
    "DEFAULT_MAX_RAW", "Dictionary", "Header", "dictionary_number", "is_sealed", "open_value", "parse_header", "seal_value",
    "CinchError", "Damaged", "DictionaryMissing", "DictionaryUnavailable", "EnvelopeError", "Refused", "TooLarge", "UnknownCodec",
]  # fmt: skip
