"""Dictionaries: immutable bytes with a number (docs/FORMAT.md, section 5), prepared for zstd once."""

import hashlib
from typing import Dict, Union

try:
    from compression import zstd  # Python 3.14
except ImportError:
    try:
        from backports import zstd
    except ImportError:
        zstd = None

MIN_BYTES, MAX_BYTES = 16, 512 << 10
_STRUCTURED = b"\x37\xa4\x30\xec"


def dictionary_number(content: bytes) -> int:
    """The first 4 bytes of the content's SHA-256."""
    return int.from_bytes(hashlib.sha256(content).digest()[:4], "big")


class Dictionary:
    """One dictionary. It may be used from any number of threads."""

    def __init__(self, content: bytes):
        if not MIN_BYTES <= len(content) <= MAX_BYTES:
            raise ValueError(f"a dictionary has {MIN_BYTES} to {MAX_BYTES} bytes, this has {len(content)}")
        self.content = bytes(content)
        self.number = dictionary_number(self.content)
        self.tag_key = hashlib.sha256(b"cinch tag v1" + self.content).digest()
        self._zstd = None

    @property
    def zstd(self):
        """The dictionary as zstd takes it."""
        if self._zstd is None:
            self._zstd = need_zstd().ZstdDict(self.content, is_raw=not self.content.startswith(_STRUCTURED))
        return self._zstd


def need_zstd():
    if zstd is None:
        raise ImportError("zstd needs Python 3.14 or the package backports.zstd: pip install 'cinch-layer[zstd]'")
    return zstd


def find(dictionaries: "Dict[int, Union[bytes, Dictionary]]", number: int):
    """The dictionary of that number, or None: also where something else lies under it."""
    found = dictionaries.get(number)
    if found is None:
        return None
    if not isinstance(found, Dictionary):
        found = Dictionary(found)
    return found if found.number == number else None
