"""Reads sessions of cinch-proto, version 2 (docs/PROTO.md, section 8). Written from that page alone, and not to be fast.

>>> session = Session()
>>> session.open(sent)  # each message, in the order in which they were sent

It is for checking that the page says what a reader needs.
"""

import struct

from .errors import Damaged, TooLarge

__all__ = ["Session"]

M32, M64 = (1 << 32) - 1, (1 << 64) - 1
MAX_RAW = 16 << 20
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
MAX_DEPTH, MAX_NODES, MAX_CHILDREN, MAX_FIELD = 24, 1024, 64, (1 << 20) - 1
MAX_SHAPES, MAX_NODE_SHAPES, MAX_RUNS = 4096, 64, 1 << 15
MAX_VALUES, MAX_VALUE_BYTES, MAX_ALL_BYTES = 1 << 16, 2048, 8 << 20
MAX_LISTS, MAX_MEMBERS, MAX_ALL_MEMBERS = 1 << 14, 64, 1 << 18
MAX_RECORDS, MAX_RECORD_BYTES, MAX_ALL_RECORD_BYTES = 1 << 16, 2048, 16 << 20
MAX_STEPS, MAX_RECORD_RUNS, MAX_RECORD_DEPTH = 512, 8, 8
MOST_GUESSES, MOST_LISTED, MOST_SERIES = 8192, 16384, 32768  # buckets of memos
END, NUMBER, OPEN, CLOSE, RUN = range(5)  # what is behind the bytes of a step
TENS = {0: 1.0, 1: 10.0, 2: 100.0, 3: 1000.0, 6: 1e6}
NO_DECIMAL = 7


def _crc_table():
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        table.append(n)
    return table


_CRC = _crc_table()


def crc32c(data: bytes) -> int:
    crc = M32
    for byte in data:
        crc = _CRC[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ M32


def join(a: int, b: int) -> int:
    h = (a * 0x9E3779B1 ^ b * 0x85EBCA77) & M32
    h ^= h >> 15
    h = h * 0x2C1B3C6D & M32
    return h ^ h >> 13


def uvarint(data: bytes, at: int):
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise Damaged("varint")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & M64, at
        shift += 7


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def zigzag(v: int) -> int:
    v &= M64
    return (v << 1 & M64) ^ (M64 if v >> 63 else 0)


def unzigzag(u: int) -> int:
    return (u >> 1 ^ (M64 if u & 1 else 0)) & M64


class Probability:
    __slots__ = ("p", "n")

    def __init__(self):
        self.p, self.n = 32768, 0


def even(n):
    return [Probability() for _ in range(n)]


class Sizes:
    def __init__(self):
        self.zero = even(4)
        self.length = [None] * 4
        self.top = [None] * 65


class Coder:
    def __init__(self, coded: bytes):
        self.coded, self.at = coded, 4
        self.range = M32
        self.code = int.from_bytes(coded[:4].ljust(4, b"\0"), "big")

    def normalize(self):
        while self.range < 1 << 24:
            self.range = self.range << 8 & M32
            byte = self.coded[self.at] if self.at < len(self.coded) else 0
            self.code = (self.code << 8 | byte) & M32
            self.at += 1

    def bit(self, p: Probability) -> int:
        bound = (self.range >> 16) * p.p
        rate = 131072 // (2 * p.n + 3)
        if self.code < bound:
            self.range, bit = bound, 0
            p.p += (65536 - p.p) * rate >> 16
        else:
            self.range -= bound
            self.code -= bound
            bit = 1
            p.p -= p.p * rate >> 16
        p.n = min(p.n + 1, 30)
        self.normalize()
        return bit

    def below(self, n: int) -> int:
        self.range //= n
        v = min(self.code // self.range, n - 1)
        self.code -= v * self.range
        self.normalize()
        return v

    def symbol(self, probabilities, k: int) -> int:
        a = 1
        for _ in range(k):
            a = 2 * a + self.bit(probabilities[a])
        return a - (1 << k)

    def number(self, sizes: Sizes, context: int) -> int:
        if not self.bit(sizes.zero[context]):
            return 0
        if sizes.length[context] is None:
            sizes.length[context] = even(64)
        bits = self.symbol(sizes.length[context], 6) + 1
        if sizes.top[bits] is None:
            sizes.top[bits] = even(4)
        first = min(2, bits - 1)
        v = 1 << first | self.symbol(sizes.top[bits], first)
        rest = bits - 1 - first
        while rest:
            k = min(rest, 16)
            v = v << k | self.below(1 << k)
            rest -= k
        return v


class Memo:
    """Buckets of four entries, the youngest first."""

    def __init__(self, most: int):
        self.most, self.added = most, 0
        self.buckets = [[] for _ in range(64)]

    def bucket(self, h):
        return self.buckets[h & len(self.buckets) - 1]

    def get(self, h):
        for entry in self.bucket(h):
            if (entry[0] ^ h) & 0x7FFFFFFF == 0:
                return entry[1]
        return None

    def put(self, h, what):
        for entry in self.bucket(h):
            if (entry[0] ^ h) & 0x7FFFFFFF == 0:
                entry[1] = what
                return
        self.added += 1
        if self.added > 2 * len(self.buckets) and len(self.buckets) < self.most:
            self.grow()
        self.push([h, what])

    def push(self, entry):
        bucket = self.bucket(entry[0])
        bucket.insert(0, entry)
        del bucket[4:]

    def grow(self):
        old, self.added = self.buckets, 0
        self.buckets = [[] for _ in range(2 * len(old))]
        for bucket in old:
            for entry in reversed(bucket):
                self.push(entry)
                self.added += 1


class Value:
    def __init__(self, data=b"", hash=0, node=None):
        self.data, self.hash, self.node = data, hash, node
        self.block, self.place = None, 0
        self.next = self.head = 0
        self.firm = False
        self.used = self.live = node is not None


class Block:
    def __init__(self, node, key):
        self.node, self.key, self.places, self.gone = node, key, [], 0
        self.after = self.key_value = 0


class List:
    def __init__(self, members=(), hash=0, node=None):
        self.members, self.hash, self.node, self.next = list(members), hash, node, 0
        self.used = self.live = node is not None


class Record:
    def __init__(self, literals, slots, base, node):
        self.steps, self.slots, self.base, self.node = literals, slots, base, node
        self.next, self.used, self.live, self.pinned = 0, True, True, False

    def bytes(self):
        return 128 + sum(len(before) for before, _, _ in self.steps) + 12 * len(self.steps) + 24 * len(self.slots)


class Steps:
    """The steps of a record while they are made."""

    def __init__(self, bases):
        self.all, self.slots, self.bases, self.literal, self.runs = [], [], bases, 0, 0

    def add(self, before, kind, of=None):
        if self.literal + len(before) > MAX_RECORD_BYTES or len(self.all) >= MAX_STEPS:
            raise Useless
        self.literal += len(before)
        self.all.append((before, kind, of))

    def mark(self):
        return len(self.all), len(self.slots), self.literal, self.runs

    def back(self, mark):
        steps, slots, self.literal, self.runs = mark
        del self.all[steps:], self.slots[slots:]

    def base_of(self, node):
        for i, (base, of) in enumerate(self.bases):
            if of is node:
                self.bases[i] = base, None
                return base
        return 0


class Useless(Exception):
    """A message of which no record is made."""


class Numbers:
    def __init__(self):
        self.last = self.before = self.size = 0
        self.worth, self.doubles, self.kind = 4096, 0, 0
        self.best = [0, 0]
        self.exact = [even(4), even(4)]
        self.hits = [[0] * 6, [0] * 6]
        self.costs = [[[0] * 6, [0] * 6], [[0] * 6, [0] * 6]]
        self.kinds = [even(8) for _ in range(8)]
        self.sizes = [Sizes(), Sizes()]


class Node:
    def __init__(self, number, field, wire):
        self.number, self.field, self.wire = number, field, wire
        self.children, self.counts, self.last_count = {}, Sizes(), 0
        if wire != BYTES:
            self.numbers = Numbers()
            return
        self.shapes, self.followed, self.last_shape = [], [0] * 64, 0
        self.same_shape, self.shape_bits, self.is_text, self.before = even(2), even(128), even(3), 0
        self.credit, self.worth, self.first, self.was = 4096, 512, 0, 0
        self.hits, self.operation = [even(2), even(2)], even(5)
        self.list_hits, self.list_was, self.prefer, self.last_list = [even(2), even(2)], 0, 0, 0
        self.blocks, self.by_key, self.other = [], {}, 0
        self.lengths, self.places, self.block_places = Sizes(), Sizes(), Sizes()
        self.list_worth = 4096
        self.had_record, self.record_credit, self.record_was = False, 16384, 0
        self.last_record = self.record_guess = 0
        self.record_hits, self.record_named, self.record_places = even(2), even(2), Sizes()


class Here:
    def __init__(self, outer=None, node=None, at=0):
        self.named = False
        if outer is None:
            self.base = self.hash = 0
        else:
            self.base = join(outer, node.number)
            self.hash = join(self.base, at)

    def name(self, h):
        self.hash = join(self.hash if self.named else self.base, h)
        self.named = True


def as_wire(v: int, wire: int) -> bytes:
    if wire == VARINT:
        return varint(v)
    return v.to_bytes(8 if wire == FIXED64 else 4, "little")


def minimal(data: bytes, at: int):
    """A varint that is as short as it can be, and where it ends."""
    v, end = uvarint(data, at)
    if end - at > 1 and not data[end - 1] or end - at == 10 and data[end - 1] > 1:
        raise Useless
    return v, end


def number_at(data: bytes, at: int, wire: int):
    if wire == VARINT:
        return minimal(data, at)
    end = at + (8 if wire == FIXED64 else 4)
    if end > len(data):
        raise Useless
    return int.from_bytes(data[at:end], "little"), end


def past_run(data: bytes, at: int, tag: int) -> int:
    """Where the run ends that begins at a place with a tag."""
    try:
        while at < len(data):
            found, start = minimal(data, at)
            if found != tag:
                break
            size, start = minimal(data, start)
            if start + size > len(data):
                break
            at = start + size
    except (Useless, Damaged):
        pass
    return at


def scaled(bits: int, digits: int) -> int:
    f = struct.unpack("<d", struct.pack("<Q", bits))[0] * TENS[digits]
    if not abs(f) <= 1e15:
        return 0
    return round(f) & M64


def signed(v: int) -> int:
    return v - (1 << 64) if v >> 63 else v


class Session:
    """What a reader knows of one session."""

    def __init__(self):
        self.begun, self.broken = False, False

    def open(self, sent: bytes, max_size: int = MAX_RAW) -> bytes:
        """The next message. After an error there is no next one."""
        if self.broken:
            raise Damaged("the session is broken")
        self.broken = True
        message = self._open(sent, max_size)
        self.broken = False
        return message

    def _open(self, sent, max_size):
        if not sent:
            raise Damaged("empty")
        if sent[0] == 0x20:
            if len(sent) - 1 > max_size:
                raise TooLarge(len(sent) - 1)
            return sent[1:]
        if sent[0] == 0x21:
            self._begin()
        elif sent[0] != 0x22 or not self.begun:
            raise Damaged("form")
        raw, at = uvarint(sent, 1)
        if raw > MAX_RAW:
            raise Damaged("length")
        if raw > max_size:
            raise TooLarge(raw)
        checksum = int.from_bytes(sent[at : at + 4], "little")
        n, at = uvarint(sent, at + 4)
        if n > len(sent) - at:
            raise Damaged("length")
        self.raw, self.made = raw, 0
        self.coder, self.text = Coder(sent[at : at + n]), sent[at + n :]
        for node in self.nodes:
            if node.wire == BYTES:
                if not (node.had_record and node.record_credit >= 8192):
                    node.credit = max(node.credit, 1)
                node.worth, node.list_worth = max(node.worth, 2), max(node.list_worth, 2)
                node.record_credit = max(node.record_credit, 1)
            else:
                node.numbers.worth = max(node.numbers.worth, 2)
        self.bases = []
        message, _, _ = self._content(self.nodes[0], 0, Here(), None)
        if len(message) != raw or self.text or self.coder.at < n or crc32c(message) != checksum:
            raise Damaged("not the message that was sent")
        return message

    def _begin(self):
        self.begun = True
        self.nodes, self.shapes, self.runs = [], 0, 0
        self.definitions = Sizes()
        self.guesses, self.listed, self.series = Memo(MOST_GUESSES), Memo(MOST_LISTED), Memo(MOST_SERIES)
        self.values, self.free, self.hand, self.bytes = [Value()], [], 0, 0
        self.lists, self.free_lists, self.list_hand, self.members = [List()], [], 0, 0
        self.records, self.free_records, self.record_hand, self.record_bytes = [Record([], [], 0, None)], [], 0, 0
        self.starts = Memo(MOST_GUESSES)
        self.last = {VARINT: 0, FIXED64: 0, FIXED32: 0}
        self._node(0, BYTES)

    def _node(self, field, wire):
        if len(self.nodes) >= MAX_NODES:
            raise Damaged("nodes")
        self.nodes.append(Node(len(self.nodes), field, wire))
        return self.nodes[-1]

    def _flag(self, p):
        return self.coder.bit(p) == 1

    # 8.3

    def _keep(self, node, data, h, key_value):
        while self.bytes + len(data) > MAX_ALL_BYTES or not self.free and len(self.values) >= MAX_VALUES:
            self._forget()
        if self.free:
            number = self.free.pop()
        else:
            number = len(self.values)
            self.values.append(None)
        key = self.values[key_value].hash if key_value else 0
        value = self.values[number] = Value(data, h, node)
        self.bytes += len(data)
        block = node.by_key.get(key)
        if block is None:
            block = node.by_key[key] = Block(node, key)
            node.blocks.append(block)
        block.key_value = key_value
        value.block, value.place = block, len(block.places)
        block.places.append(number)
        return number

    def _forget(self):
        while True:
            self.hand += 1
            if self.hand >= len(self.values):
                self.hand = 1
            value = self.values[self.hand]
            if value.live and not value.used:
                break
            value.used = False
        value.live = False
        self.bytes -= len(value.data)
        self.free.append(self.hand)
        block = value.block
        block.places[value.place] = 0
        block.gone += 1
        if block.gone == len(block.places):
            self._drop_block(block)
        elif block.gone > 16 and block.gone > len(block.places) // 2:
            block.places = [n for n in block.places if n]
            for place, n in enumerate(block.places):
                self.values[n].place = place
            block.gone = 0

    @staticmethod
    def _drop_block(block):
        node = block.node
        del node.by_key[block.key]
        last = node.blocks.pop()
        if last is not block:
            node.blocks[node.blocks.index(block)] = last

    def _keep_list(self, node, members, h):
        while self.members + len(members) > MAX_ALL_MEMBERS or not self.free_lists and len(self.lists) >= MAX_LISTS:
            self._forget_list()
        if self.free_lists:
            number = self.free_lists.pop()
        else:
            number = len(self.lists)
            self.lists.append(None)
        self.lists[number] = List(members, h, node)
        self.members += len(members)
        return number

    def _forget_list(self):
        while True:
            self.list_hand += 1
            if self.list_hand >= len(self.lists):
                self.list_hand = 1
            entry = self.lists[self.list_hand]
            if entry.live and not entry.used:
                break
            entry.used = False
        entry.live = False
        self.members -= len(entry.members)
        self.free_lists.append(self.list_hand)

    def _is_value(self, number, node):
        value = self.values[number]
        return value.live and value.node is node

    def _is_list(self, number, node):
        return self.lists[number].live and self.lists[number].node is node

    def _key(self, number):
        """The hash of a value's key, 0 without one."""
        return self.values[number].block.key

    def _as_key(self, number):
        return number if self.values[number].live and self._key(number) == 0 else 0

    # 8.4

    def _content(self, node, depth, here, known):
        """The content of a message, the value that is its key, and whether it is pure."""
        if depth >= MAX_DEPTH:
            raise Damaged("depth")
        shape = self._shape(node)
        if known and (not shape or shape[0][0].wire != BYTES or shape[0][0].field != known[0]):
            raise Damaged("known")
        parts, key, pure, last = [None] * len(shape), 0, True, 0
        for i, (child, many) in enumerate(shape[:64]):
            if child.wire != BYTES or child.credit <= 0 and not known:
                continue
            parts[i], first, last, p = self._values(child, many, depth, last, here, known)
            if i == 0:
                key = first
            pure, known = pure and p, None
        for i, (child, many) in enumerate(shape):
            if parts[i] is None:
                parts[i], p = self._others(child, many, depth, here)
                pure = pure and p
        return b"".join(parts), key, pure

    def _shape(self, node):
        guess = node.followed[node.last_shape]
        if self._flag(node.same_shape[1 if guess == node.last_shape else 0]):
            number = guess
        else:
            number = self.coder.symbol(node.shape_bits, 7)
        if number >= MAX_NODE_SHAPES or number > len(node.shapes):
            raise Damaged("shape")
        node.followed[node.last_shape] = node.last_shape = number
        if number == len(node.shapes):
            node.shapes.append(self._define(node))
        return node.shapes[number]

    def _define(self, node):
        count = self.coder.number(self.definitions, 0)
        self.shapes, self.runs = self.shapes + 1, self.runs + count
        if self.shapes > MAX_SHAPES or self.runs > MAX_RUNS:
            raise Damaged("shapes")
        return [self._run(node) for _ in range(count)]

    def _run(self, node):
        v = self.coder.number(self.definitions, 1)
        field, wire = v >> 4, v >> 1 & 7
        child = node.children.get((field, wire))
        if child is None:
            known = wire in (VARINT, FIXED64, FIXED32) or wire == BYTES and field
            if not known or field > MAX_FIELD or len(node.children) >= MAX_CHILDREN:
                raise Damaged("field")
            child = node.children[field, wire] = self._node(field, wire)
        return child, v & 1

    def _count(self, node):
        if node.last_count and self._flag(node.counts.zero[1]):
            return node.last_count
        count = self.coder.number(node.counts, 0) + 1
        if count > self.raw:
            raise Damaged("count")
        node.last_count = count
        return count

    def _make(self, n):
        """Counts bytes before they are made, so that nothing is in vain."""
        self.made += n
        if self.made > (MAX_DEPTH + 1) * self.raw + 1024:
            raise Damaged("longer than it should be")

    def _field(self, node, content):
        self._make(len(content) + 2)
        return varint(node.field << 3 | BYTES) + varint(len(content)) + content

    def _others(self, node, many, depth, here):
        series = join(here.hash, node.number)
        count = self._count(node) if many else 1
        out, pure = [], node.wire == BYTES
        if node.wire == BYTES:
            self.bases.append((join(here.hash, node.number), node))
        for i in range(count):
            if node.wire == BYTES:
                content, p = self._element(node, many, depth, Here(here.hash, node, i))
                out.append(self._field(node, content))
                pure = pure and p
                continue
            self._make(1)
            tag = varint(node.field << 3 | node.wire) if node.field else b""
            out.append(tag + as_wire(self._number(node, (series + i * 0x9E3779B1) & M32), node.wire))
        return b"".join(out), pure

    # 8.5

    def _values(self, node, many, depth, last, here, known):
        if many and not known:
            number = self._list(node, here.hash)
            if number:
                members = self.lists[number].members
                here.name(self.lists[number].hash)
                out = b"".join(self._field(node, self.values[n].data) for n in members)
                return out, self._as_key(members[0]), members[-1], True
        at_first = here.hash
        count = self._count(node) if many else 1
        out, numbers, pure, a, b = [], [], True, node.first, last
        key, run_hash = 0, count
        if known:
            out.append(self._field(node, known[1]))
            n = known[2]
            numbers.append(n if self._is_value(n, node) and self.values[n].data == known[1] else 0)
            a = node.first = numbers[0]
            key = self._as_key(a)
            last = a or last
        while len(numbers) < count and node.credit > 0:
            first, tried = not numbers, node.worth > 0
            n, guess = 0, 0
            if tried:
                guess = self._guess(node, a, b, first)
                if guess and self._flag(node.hits[0 if first else 1][node.was]):
                    n = guess
                if not first:
                    value = self.values[a]
                    value.firm = bool(n) and n == value.next
            if n:
                node.worth, node.was = min(node.worth + 16, 65536), 1
                self._met(node)
                self.values[n].used = True
                out.append(self._field(node, self.values[n].data))
            else:
                if tried:
                    node.worth, node.was = node.worth - 1, 0
                content, n, p = self._value(node, guess, depth, Here(at_first, node, len(numbers)))
                out.append(self._field(node, content))
                pure = pure and p
                if tried and n:
                    self._learn(node, a, b, first, n)
                b = n
            if first:
                node.first, key = n, self._as_key(n)
            numbers.append(n)
            run_hash = join(run_hash, self.values[n].hash)
            last, a = n or last, n
        left = count - len(numbers)
        if not left and 0 not in numbers and not known:
            self._whole_run(node, many, numbers, run_hash, at_first, here, pure)
        if left:
            self.bases.append((join(at_first, node.number), node))
        for i in range(len(numbers), count):
            content, _ = self._element(node, many, depth, Here(at_first, node, i))
            out.append(self._field(node, content))
        return b"".join(out), key, last, pure and not left

    def _whole_run(self, node, many, numbers, h, at_first, here, pure):
        if many and len(numbers) <= MAX_MEMBERS and node.list_worth > 0:
            same = join(h, node.number ^ 0xCC9E2D51)
            number = self.listed.get(same)
            if number is None or not self._is_list(number, node) or self.lists[number].members != numbers:
                node.list_worth -= 1
                number = self._keep_list(node, numbers, h)
                self.listed.put(same, number)
            self._teach_list(node, at_first, 0, number)
            self._teach_list(node, at_first, 1, number)
            node.last_list = number
        if pure:
            here.name(h)

    def _list(self, node, here):
        if node.list_worth <= 0:
            return 0
        order = (1, 0) if node.prefer < 0 else (0, 1)
        guess = self._guess_list(node, here, order[0])
        missed = not guess or not self._flag(node.list_hits[order[0]][node.list_was])
        if missed:
            wrong, guess = guess, self._guess_list(node, here, order[1])
            if guess == wrong or guess and not self._flag(node.list_hits[order[1]][node.list_was]):
                guess = 0
            if guess:
                node.prefer = max(node.prefer - 1, -8) if order[1] == 1 else min(node.prefer + 1, 7)
                self._teach_list(node, here, order[0], guess)
        node.list_was = 1 if guess else 0
        if guess:
            self._met(node)
            node.list_worth = min(node.list_worth + 16, 65536)
            node.last_list = guess
            self.lists[guess].used = True
            for n in self.lists[guess].members:
                self.values[n].used = True
        return guess

    def _guess_list(self, node, here, by_order):
        number = self.lists[node.last_list].next
        if not by_order:
            number = self.listed.get(join(join(here, node.number), 0x38495AB5)) or 0
        return number if number and self._is_list(number, node) else 0

    def _teach_list(self, node, here, by_order, number):
        if not by_order:
            self.listed.put(join(join(here, node.number), 0x38495AB5), number)
        elif node.last_list:
            self.lists[node.last_list].next = number

    def _guess(self, node, a, b, first):
        value = self.values[a]
        if not first and value.firm and self._is_value(value.next, node):
            return value.next
        n = self.guesses.get(join(join(a, b), node.number ^ 0x1B873593))
        if n and self._is_value(n, node):
            return n
        n = value.head if first else value.next
        if not (n and self._is_value(n, node)) and not first and value.live:
            n = value.block.after
        return n if n and self._is_value(n, node) else 0

    def _learn(self, node, a, b, first, n):
        self.guesses.put(join(join(a, b), node.number ^ 0x1B873593), n)
        if not a:
            return
        value = self.values[a]
        if first:
            value.head = n
            return
        value.next = n
        if value.live:
            value.block.after = n

    # 8.6

    @staticmethod
    def _met(node):
        node.credit = min(node.credit + 224, 1 << 20)

    def _value(self, node, guess, depth, here):
        """The content of a value that was not guessed, its number, and whether it is pure."""
        bits = node.operation
        if self._flag(bits[0]):
            self._met(node)
            number = self._named(node, guess)
            return self.values[number].data, number, True
        known = None
        if guess and self._key(guess) and self._flag(bits[1]):
            data = self.values[guess].data
            tag, at = uvarint(data, 0)
            size, at = uvarint(data, at)
            known = tag >> 3, data[at : at + size], self.values[guess].block.key_value
        content, key, pure = self._full(node, depth, here, known)
        node.credit = max(node.credit - (32 if pure else 192), 0)
        if len(content) > MAX_VALUE_BYTES:
            return content, 0, pure
        return content, self._keep(node, content, crc32c(content), key), pure

    def _named(self, node, guess):
        bits = node.operation
        if guess and self._flag(bits[2]):
            return self._one_of(self.values[guess].block)
        if not self._flag(bits[3]):
            return self._one_of(self._block(node, node, 0))
        if not self._flag(bits[4]):
            node.other = self.coder.number(self.definitions, 2)
        if node.other >= len(self.nodes) or node.other == node.number or self.nodes[node.other].wire != BYTES:
            raise Damaged("node")
        other = self.nodes[node.other]
        block = self._block(other, node, 1)
        number = self._place(block, len(block.places) - 1 - self.coder.number(node.places, 0))
        self._met(other)
        value = self.values[number]
        return self._keep(node, value.data, value.hash, 0)

    def _block(self, of, node, context):
        at = self.coder.number(node.block_places, context)
        if at >= len(of.blocks):
            raise Damaged("block")
        return of.blocks[at]

    def _one_of(self, block):
        return self._place(block, self.coder.below(len(block.places)))

    def _place(self, block, place):
        number = block.places[place] if place >= 0 else 0
        if not number:
            raise Damaged("place")
        self.values[number].used = True
        return number

    def _full(self, node, depth, here, known):
        text = self._flag(node.is_text[node.before])
        node.before = 2 if text else 1
        if not text:
            return self._content(node, depth + 1, here, known)
        size = self.coder.number(node.lengths, 0)
        if size > len(self.text):
            raise Damaged("text")
        content, self.text = self.text[:size], self.text[size:]
        return content, 0, True

    # 8.7

    def _number(self, node, h):
        x = node.numbers
        asked = x.worth > 0
        s = self.series.get(h) if asked else None
        if s is not None:
            x.worth = min(x.worth + 16, 65536)
            return self._known_number(node, s)
        v, size = self._one(node, 0, [0, 0, x.size])
        if asked:
            x.worth -= 1
            self.series.put(h, [v, v, size])
        return v

    def _known_number(self, node, s):
        v, size = self._one(node, 1, s)
        s[:] = [v, s[0], size]
        return v

    def _one(self, node, known, s):
        x, wire = node.numbers, node.wire
        guesses = self._guess_number(x, wire, s)
        if self._flag(x.exact[known][s[2]]):
            v, size = guesses[x.best[known]], 0
        else:
            v, size = self._missed(x, wire, known, s[2], guesses, s)
        x.before, x.last, x.size = x.last, v, size
        self.last[wire] = v
        return v, size

    def _guess_number(self, x, wire, s):
        mask = M32 if wire == FIXED32 else M64
        return [x.last, self.last[wire], s[0], (2 * s[0] - s[1]) & mask, (2 * x.last - x.before) & mask, 0]

    def _missed(self, x, wire, known, size, guesses, s):
        digits, near = NO_DECIMAL, guesses
        if wire == FIXED64 and x.doubles > 0:
            digits = x.kind = self.coder.symbol(x.kinds[x.kind], 3)
            if digits not in TENS and digits != NO_DECIMAL:
                raise Damaged("digits")
        decimal = digits != NO_DECIMAL
        if decimal:
            own, last, seen = (scaled(g, digits) for g in guesses[:3])
            near = [own, last, seen, (2 * seen - scaled(s[1], digits)) & M64, (2 * own - scaled(x.before, digits)) & M64, 0]
        costs = x.costs[known][decimal]
        way = min((w for w in range(6) if known or w not in (2, 3)), key=lambda w: (costs[w], w))
        u = self.coder.number(x.sizes[decimal], size)
        whole = (near[way] + unzigzag(u)) & (M32 if wire == FIXED32 else M64)
        v = whole
        if decimal:
            v = struct.unpack("<Q", struct.pack("<d", signed(whole) / TENS[digits]))[0]
        for w in range(6):
            costs[w] += 16 * self._difference(whole, near[w], wire).bit_length() - costs[w] // 8
        hits = x.hits[known]
        for w in range(6):
            hits[w] += (2048 if guesses[w] == v else 0) - hits[w] // 16
        x.best[known] = hits.index(max(hits))
        if wire == FIXED64 and v:
            usual = 990 <= v >> 52 & 0x7FF <= 1087
            x.doubles = min(x.doubles + 1, 8) if usual else max(x.doubles - 1, -8)
        bits = u.bit_length()
        return v, 0 if bits == 0 else 1 if bits <= 4 else 2 if bits <= 12 else 3

    @staticmethod
    def _difference(v, guess, wire):
        d = (v - guess) & (M32 if wire == FIXED32 else M64)
        if wire == FIXED32 and d >> 31:
            d -= 1 << 32
        return zigzag(d)

    # 8.8

    def _element(self, node, many, depth, here):
        """The content of one of a run, and whether it is pure."""
        if not many and depth > 0:
            content, _, pure = self._full(node, depth, here, None)
            return content, pure
        content = self._by_record(node, here.base, depth)
        if content is not None:
            return content, False
        bases = len(self.bases)
        content, _, pure = self._full(node, depth, here, None)
        if not pure:
            self._make_record(node, content, here.base, self.bases[bases:])
        del self.bases[bases:]
        return content, pure

    def _by_record(self, node, base, depth):
        if not node.had_record:
            return None
        number, was = self._guess_record(node, base), node.record_was
        guessed = number and self._flag(node.record_hits[was])
        if not guessed:
            if not self._flag(node.record_named[was]):
                return None
            number = (node.last_record + unzigzag(self.coder.number(node.record_places, 0))) & M64
            if not self._is_record(number, node, base):
                raise Damaged("record")
        if depth >= MAX_DEPTH:
            raise Damaged("depth")
        node.record_was = 1 if guessed else 0
        record = self.records[number]
        self._follows(node, number)
        node.record_guess = record.next
        node.record_credit = min(node.record_credit + 4, 32768)
        record.used = True
        return self._fill(record, depth)

    def _fill(self, record, depth):
        """A record's content. The record is not forgotten meanwhile."""
        record.pinned = True
        parts, slots = [[]], iter(record.slots)
        for before, kind, of in record.steps:
            self._make(len(before))
            parts[-1].append(before)
            if kind == NUMBER:
                self._make(1)
                parts[-1].append(as_wire(self._known_number(of, next(slots)), of.wire))
            elif kind == RUN:
                parts[-1].append(self._fill_run(*of, next(slots), depth))
            elif kind == OPEN:
                parts.append([])
            elif kind == CLOSE:
                content = b"".join(parts.pop())
                parts[-1].append(varint(len(content)) + content)
        record.pinned = False
        return b"".join(parts[0])

    def _fill_run(self, node, base, slot, depth):
        if not self._flag(node.counts.zero[2]):
            slot[0] = self.coder.number(node.counts, 3)
        out = []
        for i in range(slot[0]):
            here = Here()
            here.base, here.hash = base, join(base, i)
            content, _ = self._element(node, 1, depth + 1, here)
            out.append(self._field(node, content))
        return b"".join(out)

    def _is_record(self, number, node, base):
        if not 0 < number < len(self.records):
            return False
        record = self.records[number]
        return record.live and record.node is node and record.base == base

    def _guess_record(self, node, base):
        for number in (node.record_guess, self.starts.get(base) or 0):
            if self._is_record(number, node, base):
                return number
        return 0

    def _follows(self, node, number):
        last, record = self.records[node.last_record], self.records[number]
        if last.base != record.base:
            self.starts.put(record.base, number)
        if node.last_record:
            last.next = number
        node.last_record = number

    def _make_record(self, node, content, base, bases):
        node.record_was = 0
        if node.record_credit <= 0:
            return
        node.record_credit -= 1
        steps = Steps(bases)
        try:
            self._steps(steps, node, content, 0)
            if not steps.slots:
                raise Useless
        except (Useless, Damaged):
            node.record_credit = max(node.record_credit - 15, 0)
            return
        node.had_record = True
        record = Record(steps.all, steps.slots, base, node)
        while self.record_bytes + record.bytes() > MAX_ALL_RECORD_BYTES or not self.free_records and len(self.records) >= MAX_RECORDS:
            self._forget_record()
        number = self.free_records.pop() if self.free_records else len(self.records)
        if number == len(self.records):
            self.records.append(None)
        self.records[number] = record
        self.record_bytes += record.bytes()
        record.next = node.record_guess
        self._follows(node, number)

    def _forget_record(self):
        while True:
            self.record_hand += 1
            if self.record_hand >= len(self.records):
                self.record_hand = 1
            record = self.records[self.record_hand]
            if record.live and not record.used and not record.pinned:
                break
            record.used = False
        self.record_bytes -= record.bytes()
        self.records[self.record_hand] = dead = Record([], [], 0, None)
        dead.live = dead.used = False
        self.free_records.append(self.record_hand)

    def _steps(self, steps, node, data, depth):
        since = at = 0
        while at < len(data):
            tag, inner = minimal(data, at)
            child = node.children.get((tag >> 3, tag & 7))
            if child is None or at - since > MAX_RECORD_BYTES:
                raise Useless
            if child.wire != BYTES:
                value, end = number_at(data, inner, child.wire)
                steps.add(data[since:inner], NUMBER, child)
                steps.slots.append([value, value, child.numbers.size])
                at = since = end
                continue
            size, start = minimal(data, inner)
            end = start + size
            if end > len(data):
                raise Useless
            if child.had_record:
                steps.runs += 1
                steps.slots.append([0, 0, 0])
                if steps.runs > MAX_RECORD_RUNS:
                    raise Useless
                steps.add(data[since:at], RUN, (child, steps.base_of(child)))
                at = since = past_run(data, at, tag)
                continue
            if self._inside(steps, child, data[since:inner], data[start:end], depth):
                since = end
            at = end
        steps.add(data[since:], END)

    def _inside(self, steps, node, before, content, depth):
        if depth >= MAX_RECORD_DEPTH or not node.children or node.credit > 1024:
            return False
        mark = steps.mark()
        for make in (lambda: self._steps(steps, node, content, depth + 1), lambda: self._packed_steps(steps, node, content)):
            try:
                steps.add(before, OPEN)
                make()
                if len(steps.slots) > mark[1]:
                    steps.all[-1] = steps.all[-1][0], CLOSE, None
                    return True
            except (Useless, Damaged):
                pass
            steps.back(mark)
        return False

    @staticmethod
    def _packed_steps(steps, node, content):
        child = next((c for (field, _), c in node.children.items() if not field), None)
        if child is None:
            raise Useless
        at = 0
        while at < len(content):
            value, at = number_at(content, at, child.wire)
            steps.add(b"", NUMBER, child)
            steps.slots.append([value, value, child.numbers.size])
        steps.add(b"", END)
