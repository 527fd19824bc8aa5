"""What Redis servers hold beside the values: dictionaries, and what gateways agreed on (docs/FORMAT.md and docs/LIBRARIES.md).

Questions are generators, which yield a command, with the server it is for, and are sent its answer, or the error that came instead.
So they serve clients that block and clients that don't: see ask and ask_async. Those of one server yield commands only.
"""

import base64
import re
from typing import Dict, FrozenSet, Generator, List, NamedTuple, Tuple

from .dictionary import MAX_BYTES, Dictionary, dictionary_number
from .envelope import open_frame
from .errors import Damaged, DictionaryMissing
from .policy import POLICY_RECORD, Policy, read_policy

_PLACES = (("cinch_dict_", "cinch:dict:"), ("cinch_archive_", "cinch:dict:archive:"))
_OURS, RECORD_PREFIX, RECORD_KEY_PREFIX = "cinch_", "cinch_rule_", "cinch:dict:rule:"

Question = Generator[Tuple, object, object]


def ask(servers, question: Question):
    """Runs a question by clients that block and answer bytes: a redis.Redis of database 0, without decode_responses, for each server."""
    answer = None
    try:
        while True:
            at, command = question.send(answer)
            try:
                answer = servers[at].execute_command(*command)
            except Exception as e:  # each client has classes of its own
                answer = e
    except StopIteration as end:
        return end.value


async def ask_async(servers, question: Question):
    """The same by clients of redis.asyncio."""
    answer = None
    try:
        while True:
            at, command = question.send(answer)
            try:
                answer = await servers[at].execute_command(*command)
            except Exception as e:
                answer = e
    except StopIteration as end:
        return end.value


def _of(at: int, question: Question) -> Question:
    """A question of one server."""
    answer = None
    try:
        while True:
            answer = yield at, question.send(answer)
    except StopIteration as end:
        return end.value


def fetch_dictionary(client, number: int) -> bytes:
    """The content of a dictionary in the server whose values name it; DictionaryMissing where it is not."""
    return ask([client], dictionary_of(number)).content


def dictionary_of(number: int, servers: int = 1) -> Question:
    """Asks one server after the other. None has it only if each says so."""
    missing: Exception = DictionaryMissing(f"{number:08x}")
    for at in range(servers):
        try:
            return (yield from _of(at, _dictionary_in(number)))
        except Exception as e:
            if not isinstance(e, DictionaryMissing):
                missing = e
    raise missing


def _dictionary_in(number: int) -> Question:
    """Looks into all places, in their order."""
    name = f"{number:08x}"
    libraries = yield "FUNCTION", "LIST", "LIBRARYNAME", f"{_OURS}*_{name}", "WITHCODE"
    if isinstance(libraries, Exception):
        _must_be_unknown(libraries)
        libraries = []
    sources = {library[b"library_name"].decode(): library[b"library_code"] for library in map(_pairs, libraries)}
    for library, key in _PLACES:
        if library + name in sources:
            content = _content(sources[library + name])
        else:
            content = yield "GET", key + name
            if isinstance(content, Exception):
                content = _elsewhere(content)
        if content is None:
            continue
        if dictionary_number(content) == number:
            return Dictionary(content)
        break
    raise DictionaryMissing(name)


def _content(source: bytes) -> bytes:
    """The content in a library's source: compressed in a comment or, from 0.1.0, plain in the text that the function returns.

    b"" where there is none.
    """
    try:
        if found := re.search(rb"\n-- zstd ([0-9]{1,6}) (\S+)\n", source):
            return open_frame(base64.b64decode(found[2]), min(int(found[1]), MAX_BYTES))
        found = re.search(rb"return '([^']*)'", source)
        return base64.b64decode(found[1]) if found else b""
    except (Damaged, ValueError):
        return b""


class _Libraries(NamedTuple):
    """What a server with functions holds."""

    names: FrozenSet[str]
    records: Dict[str, Tuple[int, str]]  # version and text


def agreement(login: str, servers: int = 1) -> Question:
    """The policy that gateways have published, with the dictionaries that may be named in new values now: those that all servers have.

    One question to each where they have functions. login is "" for the server's default user.
    """
    found = []
    for at in range(servers):
        libraries = yield from _of(at, _libraries())
        if libraries is None and servers > 1:
            raise RuntimeError("a cluster of servers without functions (Redis 6) is not supported: use a Cinch gateway")
        if libraries is None:
            return (yield from _of(at, _agreed_by_keys(login)))
        found.append(libraries)
    return _agreed_by(found, login)


def _libraries() -> Question:
    """None where the server has no functions."""
    libraries = yield "FUNCTION", "LIST", "LIBRARYNAME", _OURS + "*"
    if isinstance(libraries, Exception):
        _must_be_unknown(libraries)
        return None
    names, records = set(), {}
    for library in map(_pairs, libraries):
        name = library[b"library_name"].decode()
        names.add(name)
        record, _, version = name[len(RECORD_PREFIX) :].rpartition("_")
        if name.startswith(RECORD_PREFIX) and record and len(version) == 16:
            text = _pairs(library[b"functions"][0])[b"description"].decode()
            _take(records, record, (int(version, 16), text))
    return _Libraries(frozenset(names), records)


def _take(records: Dict[str, Tuple[int, str]], name: str, version: Tuple[int, str]) -> None:
    """Keeps the highest version."""
    records[name] = max(records.get(name, (0, "")), version)


def _agreed_by(servers: List[_Libraries], login: str) -> Policy:
    records: Dict[str, Tuple[int, str]] = {}
    for server in servers:
        for name, version in server.records.items():
            _take(records, name, version)
    policy = read_policy({name: text for name, (_, text) in records.items()}, login)
    policy.keep(lambda n: all(f"cinch_dict_{n:08x}" in s.names and f"cinch_retired_{n:08x}" not in s.names for s in servers))
    return policy


def _agreed_by_keys(login: str) -> Question:
    records = {POLICY_RECORD: (yield from _record_key(POLICY_RECORD))}
    for name in read_policy(records, login).records():
        records[name] = yield from _record_key(name)
    policy = read_policy(records, login)
    live = set()
    for number in policy.dictionaries():
        there = yield from _exists(f"{number:08x}")
        retired = yield from _exists(f"retired:{number:08x}")
        if there and not retired:
            live.add(number)
    policy.keep(live.__contains__)
    return policy


def _record_key(name: str) -> Question:
    text = yield "GET", RECORD_KEY_PREFIX + name
    if isinstance(text, Exception):
        raise text
    return (text or b"").decode().partition(" ")[2]


def _exists(name: str) -> Question:
    answer = yield "EXISTS", "cinch:dict:" + name
    if isinstance(answer, Exception):
        raise answer
    return bool(answer)


def _pairs(fields) -> dict:
    """A map of RESP3, or the list of names and values that RESP2 has for it."""
    if isinstance(fields, dict):
        return fields
    return dict(zip(fields[::2], fields[1::2]))


def _elsewhere(error: Exception) -> None:
    """Lets pass that another node of a cluster has the key's slot: that one is asked too."""
    if type(error).__name__ != "MovedError":
        raise error


def _must_be_unknown(error: Exception):
    if not any(text in str(error).lower() for text in ("function not found", "unknown command", "unknown subcommand")):
        raise error
