"""Which values are sealed, and how: the rules that gateways publish in the store (docs/LIBRARIES.md has their format)."""

import hashlib
import json
from typing import Callable, Dict, Iterable, List, NamedTuple, Optional

from .glob import compile_glob
from .size import cost

POLICY_RECORD = "policy"
FORMAT = 1
NOTHING_GAINS = 0.999999999  # as a rule's min_gain: gateways alone seal there


class Setting(NamedTuple):
    level: int
    dictionary: int  # 0: none


class Rule:
    """One rule, as published."""

    def __init__(self, text: dict):
        self.name = text.get("name", "")
        self.space = text.get("space", "")
        self.types = frozenset(text.get("types", ()))
        self.min_size, self.max_size = text.get("min_size", 0), text.get("max_size", 0)
        self.min_gain = text.get("min_gain", 0.1)
        self.seals = text.get("codec", "raw") != "raw" and not text.get("observe", False)
        self.level = text["level"] if text.get("codec") == "zstd" and text.get("level") else 3
        self.dictionary = int(text.get("dictionary") or "0", 16)
        self.record = text.get("record", "")
        self.shared = text.get("shared", False)
        self._key, self._field = compile_glob(text.get("key", "*").encode()), compile_glob(text.get("field", "").encode() or b"*")
        self._strings = not text.get("field")

    def covers(self, space: str, key: bytes, field: Optional[bytes], kind: str) -> bool:
        return (
            kind in self.types
            and (not self.space or self.space == space)
            and (self._strings or field is not None)
            and self._key.fullmatch(key)
            and (field is None or self._field.fullmatch(field))
        )

    def takes(self, size: int) -> bool:
        return size >= self.min_size and (not self.max_size or size <= self.max_size)

    def worth(self, kind: str):
        """The function that seal_value asks."""

        def ask(raw: int, sealed: int) -> bool:
            before, after = cost(kind, raw, sealed)
            return after < before and before - after >= self.min_gain * before

        return ask

    def record_for(self, login: str) -> str:
        """The name of the record with the rule's dictionaries; login is "" for the server's default user."""
        if not self.record or self.shared or not login:
            return self.record
        return hashlib.sha256(f"{self.record} {login}".encode()).hexdigest()[:16]


class Policy:
    """All rules, in order, with the dictionaries in force for a login."""

    def __init__(self, rules: Iterable[Rule] = (), exclude: Iterable[str] = (), off: bool = True, login: str = ""):
        self.rules, self.off, self.login = list(rules), off, login
        self._current: Dict[str, int] = {}  # by the record's name
        self._live: frozenset = frozenset()
        self._exclude = [compile_glob(glob.encode()) for glob in exclude]

    def excluded(self, key: bytes) -> bool:
        return any(glob.fullmatch(key) for glob in self._exclude)

    def rule(self, space: str, key: bytes, field: Optional[bytes], kind: str, size: int) -> Optional[Rule]:
        """The first rule that covers a value, or None."""
        if self.off:
            return None
        for rule in self.rules:
            if rule.takes(size) and rule.covers(space, key, field, kind):
                return rule
        return None

    def may_seal(self, space: str, key: bytes, kind: str) -> bool:
        """Whether some value of the key may be stored sealed."""
        if self.excluded(key):
            return False
        return any(r.seals and r.covers(space, key, None if kind == "string" else b"", kind) for r in self.rules)

    def setting(self, rule: Rule) -> Setting:
        name = rule.record_for(self.login)
        number = self._current.get(name, rule.dictionary) if name else rule.dictionary
        return Setting(rule.level, number if number in self._live else 0)

    def records(self) -> List[str]:
        """The names of the records that say which dictionaries are in force."""
        return [name for name in (rule.record_for(self.login) for rule in self.rules if rule.seals) if name]

    def dictionaries(self) -> List[int]:
        """The numbers that new values may name, if they are live."""
        return [n for n in {*self._current.values(), *(rule.dictionary for rule in self.rules)} if n]

    def keep(self, live: Callable[[int], bool]) -> None:
        """Says which of the dictionaries are in the store and not retired. Until then none is."""
        self._live = frozenset(filter(live, self.dictionaries()))


def read_policy(records: Dict[str, str], login: str) -> Policy:
    """The policy that gateways have published; one that seals nothing where there is none, or one of a later format."""
    document = json.loads(records.get(POLICY_RECORD) or "{}")
    if document.get("format") != FORMAT:
        return Policy()
    rules = [Rule(r) for r in document.get("rules", ())]
    policy = Policy(rules, document.get("exclude", ()), document.get("off", False), login)
    for name in policy.records():
        current = json.loads(records.get(name) or "{}").get("current")
        if current:
            policy._current[name] = int(current["dict"], 16)
    return policy


def never_sealed(value: bytes) -> bool:
    """What the server computes on: a canonical int64, a HyperLogLog."""
    if value.startswith(b"HYLL"):
        return True
    if not 0 < len(value) <= 20 or not value[value[:1] == b"-" :].isdigit():
        return False
    n = int(value)
    return str(n).encode() == value and -(1 << 63) <= n < 1 << 63
