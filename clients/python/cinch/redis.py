"""Cinch for redis-py, with and without asyncio, without a gateway.

>>> r = attach(redis.Redis(host="cache"))
>>> r.set("menu:7", menu)        # sealed as the gateways' policy says
>>> r.get("menu:7")              # what a gateway or another library sealed opens

Every way of the client works: pipelines, transactions, decode_responses, RESP2 and RESP3. What the gateways in front of the server
have agreed on is asked for every half a minute, over connections of its own.
"""

import asyncio
import contextlib
import logging
import os
import threading
import time
import weakref
from collections import OrderedDict

import redis
import redis.asyncio

from . import commands, store
from .dictionary import Dictionary
from .envelope import DEFAULT_MAX_RAW, escape, is_sealed, open_value, parse_header, seal_value
from .errors import DictionaryUnavailable, EnvelopeError
from .policy import NOTHING_GAINS, Policy, never_sealed

log = logging.getLogger("cinch")

REFRESH = 30.0  # seconds
LEASE = 120.0  # how long a dictionary may be named after the store was seen to have it, docs/DICTIONARIES.md
MAX_DICTIONARIES = 256  # kept at a time


def attach(client, refresh: float = REFRESH, max_raw: int = DEFAULT_MAX_RAW):
    """Has a client seal and open values from now on, and returns it.

    client is a Redis or RedisCluster of redis or redis.asyncio, of a Sentinel too, before it is used. Its user needs FUNCTION|LIST besides.
    """
    pool = getattr(client, "connection_pool", None)
    if isinstance(client, redis.RedisCluster):
        _attach_nodes(client, refresh, max_raw)
    elif isinstance(client, redis.asyncio.RedisCluster):
        _attach_nodes_async(client, refresh, max_raw)
    elif pool is not None:
        _attach(pool, refresh, max_raw)
    else:
        raise TypeError(f"{type(client).__name__} is not supported: use a Redis or a RedisCluster of redis or redis.asyncio, a Sentinel's master_for(…), or a Cinch gateway")
    return client


def _attach(pool, refresh: float = REFRESH, max_raw: int = DEFAULT_MAX_RAW) -> None:
    keeper_of = _BlockingKeeper if isinstance(pool, redis.ConnectionPool) else _AsyncKeeper
    keeper = keeper_of(pool.connection_class, pool.connection_kwargs, lambda: [pool.connection_kwargs], refresh, max_raw)
    pool.connection_class = _sealing(_Connection if keeper.blocking else _AsyncConnection, keeper)


def _sealing(kind, keeper: "Keeper"):
    """The class of connections that a keeper serves."""
    base = keeper.connection_class
    return type("Cinch" + base.__name__, (kind, base), {"keeper": keeper})


def _attach_nodes(client: redis.RedisCluster, refresh: float, max_raw: int) -> None:
    """All nodes share a keeper: values move between them, so the dictionaries that they name must be in all primaries."""
    manager, create = client.nodes_manager, client.nodes_manager.create_redis_node
    pools = [node.redis_connection.connection_pool for node in client.get_nodes() if node.redis_connection is not None]

    def primaries():
        return [node.redis_connection.connection_pool.connection_kwargs for node in client.get_primaries() if node.redis_connection is not None]

    keeper = _BlockingKeeper(pools[0].connection_class, pools[0].connection_kwargs, primaries, refresh, max_raw)
    sealing = _sealing(_Connection, keeper)

    def create_redis_node(*args, **kwargs):
        made = create(*args, **kwargs)
        made.connection_pool.connection_class = sealing
        return made

    manager.create_redis_node = create_redis_node
    for pool in pools:
        pool.disconnect()  # the constructor has asked for the slots already
        pool.connection_class = sealing
        pool.reset()


def _attach_nodes_async(client: redis.asyncio.RedisCluster, refresh: float, max_raw: int) -> None:
    """The same. Nodes are made later, of the client's arguments; those that it begins with are there."""
    made, startup = client.connection_kwargs, list(client.nodes_manager.startup_nodes.values())

    def primaries():
        return [node.connection_kwargs for node in client.get_primaries()]

    keeper = _AsyncKeeper(startup[0].connection_class, made, primaries, refresh, max_raw)
    made["connection_class"] = _sealing(_AsyncConnection, keeper)
    for node in startup:
        node.connection_class = made["connection_class"]


class ConnectionPool(redis.ConnectionPool):
    """redis-py's, with connections that seal and open: for frameworks that take a class of pools by its name (Django, Celery)."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        _attach(self)


class BlockingConnectionPool(redis.BlockingConnectionPool):
    """The same for redis-py's pool that waits for a free connection."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        _attach(self)


_keepers: "weakref.WeakSet[Keeper]" = weakref.WeakSet()


def _forked() -> None:
    for keeper in list(_keepers):
        keeper.unlock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class Keeper:
    """What is known of a store: its policy and its dictionaries. Shared by all connections of a pool, or to the nodes of a cluster."""

    blocking: bool

    def __init__(self, connection_class, kwargs, servers, refresh: float, max_raw: int):
        """Serves connections of a class. servers() returns the arguments of one to each server that holds values, none as long as they are unknown."""
        self.connection_class, self._servers = connection_class, servers
        self._space, self.login = str(kwargs.get("db") or 0), _login(kwargs)
        self._refresh, self._max_raw = refresh, max_raw
        self.unlock()
        _keepers.add(self)
        self._policy, self._read, self._next = Policy(), float("-inf"), float("-inf")
        self._dictionaries: "OrderedDict[int, Dictionary]" = OrderedDict()

    def unlock(self) -> None:
        """Makes the locks anew: in a process that was forked, nobody is left who would give them back."""
        self._lock = threading.Lock()

    def clients(self):
        """Those for questions of our own, with connections that don't seal."""
        module = redis if self.blocking else redis.asyncio
        for kwargs in self._servers():
            ours = {**kwargs, "db": 0, "decode_responses": False}  # a password may have come after the pool was made
            yield module.Redis.from_pool(module.ConnectionPool(connection_class=self.connection_class, **ours))

    def is_new(self) -> bool:
        """Whether nobody has asked yet."""
        return self._next == float("-inf")

    def is_stale(self) -> bool:
        return time.monotonic() >= self._next and bool(self._servers())

    def found(self, answer) -> None:
        """Takes a policy, or the error that came instead: then the old one holds, for as long as it may."""
        now = time.monotonic()
        if isinstance(answer, Exception):
            log.warning("cinch: the policy can't be read, next try in %.0f s: %s", self._refresh, answer)
        else:
            self._policy, self._read = answer, now
        self._next = now + self._refresh

    def dictionary(self, number: int):
        with self._lock:
            return self._dictionaries.get(number)

    def keep(self, dictionary: Dictionary) -> None:
        with self._lock:
            self._dictionaries[dictionary.number] = dictionary
            while len(self._dictionaries) > MAX_DICTIONARIES:
                self._dictionaries.popitem(last=False)

    def lacking(self, policy: Policy):
        """The dictionaries in force that are not here yet."""
        wanted = {policy.setting(rule).dictionary for rule in policy.rules} - {0}
        with self._lock:
            return [n for n in wanted if n not in self._dictionaries]

    def seal(self, args):
        """The command with its values sealed."""
        policy = self._policy
        for kind, key in commands.computed_keys(args):
            if policy.may_seal(self._space, key, kind):
                commands.refuse(args, key)
        places = commands.values(args)
        if not places:
            return args
        args = list(args)
        for at, key, field, kind in places:
            if isinstance(args[at], memoryview):
                args[at] = bytes(args[at])
            args[at] = self._sealed(policy, args[key], None if field is None else args[field], kind, args[at])
        return args

    def _sealed(self, policy: Policy, key, field, kind: str, value: bytes) -> bytes:
        if policy.excluded(key):
            return value
        rule = None if never_sealed(value) else policy.rule(self._space, key, field, kind, len(value))
        if rule is None or not rule.seals or rule.min_gain >= NOTHING_GAINS:
            return escape(value) if is_sealed(value) else value
        level, number = policy.setting(rule)
        dictionary = self.dictionary(number) if number and time.monotonic() - self._read < LEASE else None
        return seal_value(value, level, dictionary, rule.worth(kind), self._max_raw)

    def missing(self, answer, found=None):
        """The numbers that envelopes in an answer name and that are not here."""
        found = set() if found is None else found
        if isinstance(answer, bytes):
            if is_sealed(answer):
                number = _number(answer)
                if number and self.dictionary(number) is None:
                    found.add(number)
        elif isinstance(answer, dict):
            for pair in answer.items():
                self.missing(pair, found)
        elif isinstance(answer, (list, tuple, set)):
            for element in answer:
                self.missing(element, found)
        return found

    def open(self, answer, decode):
        """An answer with its envelopes opened; decode is called for all bytes."""
        if isinstance(answer, bytes):
            return decode(self._opened(answer) if is_sealed(answer) else answer)
        if isinstance(answer, dict):
            return {self.open(k, decode): self.open(v, decode) for k, v in answer.items()}
        if isinstance(answer, (list, tuple, set)):
            return type(answer)(self.open(element, decode) for element in answer)
        return answer

    def _opened(self, stored: bytes) -> bytes:
        try:
            return open_value(stored, self._dictionaries, self._max_raw)
        except EnvelopeError as e:
            e.stored = stored
            raise


def _login(kwargs) -> str:
    name = kwargs.get("username") or ""
    return "" if name == "default" else name


def _number(stored: bytes) -> int:
    try:
        return parse_header(stored).dictionary
    except Exception:  # open_value says what is wrong
        return 0


def _bytes(encoder, args):
    """Arguments as they go to the server, the words of `CONFIG GET` apart."""
    first = args[0].encode() if isinstance(args[0], str) else args[0]
    return (*first.split(), *map(encoder.encode, args[1:]))


def _decoder(connection, wanted: bool):
    decoding = wanted and connection.encoder.decode_responses
    return connection.encoder.decode if decoding else lambda value: value


def _of_one_answer(error: EnvelopeError):
    """The error as one that the server could have answered: the connection is as good as before, and what follows is read."""
    kind = type(error)
    answered = type(kind.__name__, (kind, redis.ResponseError), {})(*error.args)
    answered.stored = error.stored
    return answered


class _Packer:
    """Seals before a connection's own packer packs."""

    def __init__(self, connection, packer):
        self._connection, self._packer = connection, packer

    def pack(self, *args):
        keeper = self._connection.keeper
        keeper.refresh_policy()
        return self._packer.pack(*keeper.seal(_bytes(self._connection.encoder, args)))


class _Connection:
    """Mixed into a connection class of redis-py."""

    keeper: "_BlockingKeeper"

    def _construct_command_packer(self, packer):
        return _Packer(self, super()._construct_command_packer(packer))

    def read_response(self, disable_decoding=False, **kwargs):
        answer = super().read_response(disable_decoding=True, **kwargs)
        try:
            self.keeper.fetch(self.keeper.missing(answer))
            return self.keeper.open(answer, _decoder(self, not disable_decoding))
        except EnvelopeError as e:
            raise _of_one_answer(e) from e


class _AsyncConnection:
    """Mixed into a connection class of redis.asyncio. Commands are packed without waiting, so the policy is read before the first and after answers."""

    keeper: "_AsyncKeeper"

    async def connect(self):
        await self.keeper.refresh_policy()
        return await super().connect()

    def pack_command(self, *args):
        return super().pack_command(*self.keeper.seal(_bytes(self.encoder, args)))

    async def read_response(self, disable_decoding=False, *args, **kwargs):
        answer = await super().read_response(True, *args, **kwargs)
        await self.keeper.refresh_policy()
        try:
            await self.keeper.fetch(self.keeper.missing(answer))
            return self.keeper.open(answer, _decoder(self, not disable_decoding))
        except EnvelopeError as e:
            raise _of_one_answer(e) from e


class _BlockingKeeper(Keeper):
    blocking = True

    def unlock(self) -> None:
        super().unlock()
        self._asking = threading.Lock()

    def refresh_policy(self) -> None:
        """Asks where it is time to. One thread does; others go on with what is known, if anything is."""
        if not self.is_stale() or not self._asking.acquire(blocking=self.is_new()):
            return
        try:
            if self.is_stale():
                self.found(self._agreed())
        finally:
            self._asking.release()

    @contextlib.contextmanager
    def _asked(self):
        with contextlib.ExitStack() as opened:
            yield [opened.enter_context(client) for client in self.clients()]

    def _agreed(self):
        try:
            with self._asked() as servers:
                policy = store.ask(servers, store.agreement(self.login, len(servers)))
                for number in self.lacking(policy):
                    self.keep(store.ask(servers, store.dictionary_of(number, len(servers))))
                return policy
        except Exception as e:  # writing goes on, with plain values in the end
            return e

    def fetch(self, numbers) -> None:
        if not numbers:
            return
        try:
            with self._asked() as servers:
                for number in numbers:
                    self.keep(store.ask(servers, store.dictionary_of(number, len(servers))))
        except redis.RedisError as e:
            raise DictionaryUnavailable(str(e)) from e


class _AsyncKeeper(Keeper):
    blocking = False

    def __init__(self, *args):
        super().__init__(*args)
        self._asking = asyncio.Lock()

    async def refresh_policy(self) -> None:
        if not self.is_stale() or self._asking.locked() and not self.is_new():
            return
        async with self._asking:
            if self.is_stale():
                self.found(await self._agreed())

    @contextlib.asynccontextmanager
    async def _asked(self):
        async with contextlib.AsyncExitStack() as opened:
            yield [await opened.enter_async_context(client) for client in self.clients()]

    async def _agreed(self):
        try:
            async with self._asked() as servers:
                policy = await store.ask_async(servers, store.agreement(self.login, len(servers)))
                for number in self.lacking(policy):
                    self.keep(await store.ask_async(servers, store.dictionary_of(number, len(servers))))
                return policy
        except Exception as e:
            return e

    async def fetch(self, numbers) -> None:
        if not numbers:
            return
        try:
            async with self._asked() as servers:
                for number in numbers:
                    self.keep(await store.ask_async(servers, store.dictionary_of(number, len(servers))))
        except redis.RedisError as e:
            raise DictionaryUnavailable(str(e)) from e
