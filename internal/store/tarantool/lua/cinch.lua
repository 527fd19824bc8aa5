--- cinch.lua: opens and seals Cinch's envelopes in the server's own Lua (docs/FORMAT.md).
--
--   local cinch = require('cinch')
--   cinch.open(tuple.body)                        -- the value; a plain value is returned unchanged
--   cinch.seal(text, {codec = 'zstd', level = 3}) -- an envelope, or the value if that is not longer
--   box.space.docs:before_replace(cinch.trigger({'body'}, {codec = 'lz4'})) -- the storage layout
--
--     offset  0    1    2    3         4
--           +----+----+----+---------+-------+---------+---------------+----------------+-----------+---------+
--           | C1 | DD | DC | ver cod | flags | raw len | CRC-32 or tag | dictionary no. | extension | payload |
--           +----+----+----+---------+-------+---------+---------------+----------------+-----------+---------+
--
-- It uses the system's libzstd.so.1, liblz4.so.1 and libz.so.1 through FFI. Nothing here yields, and
-- nothing is allocated for an envelope before its length was compared with max_raw.
-- Errors begin with 'cinch: '.
local ffi = require('ffi')
local bit = require('bit')

-- Declared only once, since the module may be loaded again.
if not pcall(ffi.typeof, 'cinch_z_stream') then ffi.cdef[[
typedef struct cinch_z_stream {
    const uint8_t *next_in; unsigned int avail_in; unsigned long total_in;
    uint8_t *next_out; unsigned int avail_out; unsigned long total_out;
    const char *msg; void *state; void *zalloc; void *zfree; void *opaque;
    int data_type; unsigned long adler; unsigned long reserved;
} cinch_z_stream;
const char *zlibVersion(void);
unsigned long crc32(unsigned long crc, const char *buf, unsigned int len);
int inflateInit2_(cinch_z_stream *s, int bits, const char *version, int size);
int inflate(cinch_z_stream *s, int flush);
int inflateEnd(cinch_z_stream *s);
int LZ4_decompress_safe(const char *src, uint8_t *dst, int size, int capacity);
int LZ4_compress_default(const char *src, uint8_t *dst, int size, int capacity);
int LZ4_compressBound(int size);
void *ZSTD_createDCtx(void);
size_t ZSTD_freeDCtx(void *ctx);
void *ZSTD_createCCtx(void);
size_t ZSTD_freeCCtx(void *ctx);
size_t ZSTD_decompress_usingDict(void *ctx, uint8_t *dst, size_t capacity, const char *src, size_t size, const char *dict, size_t dict_size);
size_t ZSTD_findFrameCompressedSize(const char *src, size_t size);
size_t ZSTD_CCtx_setParameter(void *ctx, int parameter, int value);
size_t ZSTD_CCtx_reset(void *ctx, int what);
size_t ZSTD_CCtx_loadDictionary(void *ctx, const char *dict, size_t size);
size_t ZSTD_compress2(void *ctx, uint8_t *dst, size_t capacity, const char *src, size_t size);
size_t ZSTD_compressBound(size_t size);
unsigned ZSTD_isError(size_t code);
]] end

local M = {
    max_raw = 32 * 1024 * 1024, -- longer values are not opened, nor sealed with a codec
    min_size = 64,              -- shorter ones are left alone by seal and trigger
}

local MAGIC = '\193\221\220'
local ZSTD_MAGIC = '\40\181\47\253'
local NAMES = {[0] = 'raw', 'snappy', 's2', 'minlz', 'lz4', 'zstd', 'zlib', 'gzip'}
local RAW, LZ4, ZSTD, ZLIB, GZIP = 0, 4, 5, 6, 7

local function fail(what) error('cinch: ' .. what, 0) end
local function damaged(what) fail('damaged (' .. what .. ')') end

local libraries = {}
local function library(name)
    if libraries[name] == nil then
        local ok, l = pcall(ffi.load, name)
        if not ok then fail(('%s is not installed: %s'):format(name, l)) end
        libraries[name] = l
    end
    return libraries[name]
end
local function zstd() return library('libzstd.so.1') end
local function lz4() return library('liblz4.so.1') end
local function zlib() return library('libz.so.1') end

local contexts = {} -- nothing yields, so one of each is enough
local function context(name)
    if contexts[name] == nil then
        local c = zstd()['ZSTD_create' .. name]()
        if c == nil then fail('no memory') end
        contexts[name] = ffi.gc(c, zstd()['ZSTD_free' .. name])
    end
    return contexts[name]
end

local function checksum(value) return tonumber(zlib().crc32(0, value, #value)) end

--- is_sealed: the stored value is an envelope, or a damaged one.
function M.is_sealed(stored) return type(stored) == 'string' and stored:sub(1, 3) == MAGIC end

local TAG_LEN = 8

-- header returns the codec, the raw length, the checksum, the dictionary (nil: none), the offset of the payload,
-- and the offset of the tag. An envelope with a dictionary has a tag in place of the checksum.
local function header(s)
    local at = 4
    local function byte()
        local b = s:byte(at)
        if b == nil then damaged('truncated') end
        at = at + 1
        return b
    end
    local b = byte()
    local codec = bit.band(b, 15)
    if bit.rshift(b, 4) ~= 1 then damaged('version') end
    local flags = byte()
    if bit.band(flags, 0x30) ~= 0 then damaged('reserved') end
    local len, factor = 0, 1
    for i = 1, 5 do
        b = byte()
        len, factor = len + bit.band(b, 127) * factor, factor * 128
        if b < 128 then
            if b == 0 and i > 1 then damaged('header') end
            break
        elseif i == 5 then
            damaged('header')
        end
    end
    local sum, dictionary, tag_at
    if flags < 128 then
        sum = byte() + byte() * 256 + byte() * 65536 + byte() * 16777216
    else
        tag_at, at = at, at + TAG_LEN
        dictionary = byte() * 16777216 + byte() * 65536 + byte() * 256 + byte()
        if dictionary == 0 then damaged('header') end
        if codec ~= ZSTD and codec < 8 then damaged('reserved') end
    end
    local words = at
    at = at + 4 * bit.band(flags, 15)
    if at > #s + 1 then damaged('truncated') end
    if bit.band(flags, 0x40) ~= 0 then -- the value is in another library's format, which this module can't write
        if words == at or s:byte(words) ~= 1 or s:byte(words + 1) == 0 or s:byte(words + 3) ~= 0 then damaged('reserved') end
        codec = 0x40 + s:byte(words + 1)
    end
    return codec, len, sum, dictionary, at, tag_at
end

local known = {} -- dictionaries that were checked; they never change

--- dictionary: the content of a dictionary, from the space cinch_dictionaries. May be replaced by
-- a function that does not yield.
function M.dictionary(number)
    if known[number] ~= nil then return known[number] end
    local space = box.space.cinch_dictionaries
    local t
    -- The caller of a stored function need not have the right to read dictionaries.
    if space ~= nil then t = box.session.su('admin', space.get, space, number) end
    if t == nil or t.content == '' then fail(('dictionary %08x is missing'):format(number)) end -- or forgotten
    local hash = require('digest').sha256_hex(t.content)
    if hash ~= t.sha256 or tonumber(hash:sub(1, 8), 16) ~= number then
        fail(('what is stored under dictionary %08x is another'):format(number))
    end
    known[number] = t.content
    return t.content
end

local function xored(key, with)
    local block = {}
    for i = 1, 64 do block[i] = string.char(bit.bxor(key:byte(i) or 0, with)) end
    return table.concat(block)
end

local keys = {} -- by number: a dictionary's content, and its key padded for HMAC's inner and outer hash

-- tag returns the first 8 bytes of HMAC-SHA256 over the bytes before and behind the tag. The key can be
-- computed only from the dictionary.
local function tag(number, before, behind)
    local content, sha256, k = M.dictionary(number), require('digest').sha256, keys[number]
    if k == nil or k.content ~= content then
        local key = sha256('cinch tag v1' .. content)
        k = {content = content, inner = xored(key, 0x36), outer = xored(key, 0x5c)}
        keys[number] = k
    end
    return sha256(k.outer .. sha256(k.inner .. before .. behind)):sub(1, TAG_LEN)
end

-- scratch returns a buffer of at least size bytes. Buffers of up to 1 MiB are kept for the next call.
local buffer, capacity = nil, 0
local function scratch(size)
    if size <= capacity then return buffer end
    local b = ffi.new('uint8_t[?]', size)
    if size <= 1024 * 1024 then buffer, capacity = b, size end
    return b
end

local decoders = {}

decoders[LZ4] = function(payload, len, dst)
    return lz4().LZ4_decompress_safe(payload, dst, #payload, len) == len
end

decoders[ZSTD] = function(payload, len, dst, number)
    local z, frame = zstd(), ZSTD_MAGIC .. payload
    if tonumber(z.ZSTD_findFrameCompressedSize(frame, #frame)) ~= #frame then return false end
    local dict = number and M.dictionary(number) or nil
    local n = z.ZSTD_decompress_usingDict(context('DCtx'), dst, len, frame, #frame, dict, dict and #dict or 0)
    return z.ZSTD_isError(n) == 0 and tonumber(n) == len
end

local function inflate(bits)
    return function(payload, len, dst)
        local z, s = zlib(), ffi.new('cinch_z_stream')
        s.next_in, s.avail_in = ffi.cast('const uint8_t *', payload), #payload
        s.next_out, s.avail_out = dst, len
        if z.inflateInit2_(s, bits, z.zlibVersion(), ffi.sizeof('cinch_z_stream')) ~= 0 then fail('no memory') end
        local ended = z.inflate(s, 4)
        z.inflateEnd(s)
        return ended == 1 and s.avail_in == 0 and s.avail_out == 0
    end
end
decoders[ZLIB], decoders[GZIP] = inflate(15), inflate(31)

--- open: the value in an envelope. Bytes that are not an envelope are returned unchanged.
function M.open(stored, max_raw)
    if not M.is_sealed(stored) then return stored end
    local codec, len, sum, dictionary, at, tag_at = header(stored)
    if codec > 7 then fail(('codec %d is unknown'):format(codec)) end
    local value
    if codec == RAW then
        value = stored:sub(at)
        if #value ~= len then damaged('payload') end
    else
        if len > (max_raw or M.max_raw) then fail(('too large: %d bytes'):format(len)) end
        if decoders[codec] == nil then fail(('codec %s can only be opened by the gateway'):format(NAMES[codec])) end
        if dictionary and tag(dictionary, stored:sub(1, tag_at - 1), stored:sub(tag_at + TAG_LEN)) ~= stored:sub(tag_at, tag_at + TAG_LEN - 1) then
            damaged('tag') -- before anything is decoded
        end
        if at > #stored then damaged('payload') end
        local dst = scratch(math.max(len, 1))
        if not decoders[codec](stored:sub(at), len, dst, dictionary) then damaged('payload') end
        value = ffi.string(dst, len)
    end
    if not dictionary and checksum(value) ~= sum then damaged('checksum') end
    return value
end

local function uvarint(n)
    local s = ''
    while n >= 128 do
        s, n = s .. string.char(n % 128 + 128), math.floor(n / 128)
    end
    return s .. string.char(n)
end

local function little(n)
    return string.char(n % 256, math.floor(n / 256) % 256, math.floor(n / 65536) % 256, math.floor(n / 16777216))
end

local function envelope(codec, value, payload, dictionary)
    local head = MAGIC .. string.char(16 + codec, dictionary and 128 or 0) .. uvarint(#value)
    if dictionary == nil then return head .. little(checksum(value)) .. payload end
    local behind = little(dictionary):reverse() .. payload
    return head .. tag(dictionary, head, behind) .. behind
end

local encoders = {}

function encoders.lz4(value)
    local size = lz4().LZ4_compressBound(#value)
    local dst = scratch(size)
    local n = lz4().LZ4_compress_default(value, dst, #value, size)
    if n <= 0 then return nil end
    return LZ4, ffi.string(dst, n)
end

function encoders.zstd(value, o)
    local z, c = zstd(), context('CCtx')
    z.ZSTD_CCtx_reset(c, 3)
    z.ZSTD_CCtx_setParameter(c, 100, o.level or 3)
    z.ZSTD_CCtx_setParameter(c, 101, 23) -- no window above 8 MiB
    z.ZSTD_CCtx_setParameter(c, 201, 0)  -- no checksum
    z.ZSTD_CCtx_setParameter(c, 202, 0)  -- no dictionary number: the envelope has them
    if o.dictionary then
        local dict = M.dictionary(o.dictionary)
        if z.ZSTD_isError(z.ZSTD_CCtx_loadDictionary(c, dict, #dict)) ~= 0 then return nil end
    end
    local size = tonumber(z.ZSTD_compressBound(#value))
    local dst = scratch(size)
    local n = z.ZSTD_compress2(c, dst, size, value, #value)
    if z.ZSTD_isError(n) ~= 0 then return nil end
    return ZSTD, ffi.string(dst + 4, tonumber(n) - 4)
end

--- seal: an envelope, or the value itself if that is not longer. Values that begin with the
-- magic are always wrapped. Options: codec ('zstd' or 'lz4'), level, dictionary (a number).
function M.seal(value, o)
    o = o or {}
    local encode = encoders[o.codec or 'zstd']
    if encode == nil then fail(('codec %s: use zstd or lz4'):format(tostring(o.codec))) end
    if o.dictionary and (o.codec or 'zstd') ~= 'zstd' then fail('only zstd takes a dictionary') end
    if #value >= M.min_size and #value <= M.max_raw then
        local codec, payload = encode(value, o)
        if codec ~= nil then
            local sealed = envelope(codec, value, payload, o.dictionary)
            if #sealed < #value then return sealed end
        end
    end
    if M.is_sealed(value) then return envelope(RAW, value, value) end
    return value
end

local function well_formed(stored) return M.is_sealed(stored) and pcall(header, stored) end

-- numbers returns the numbers of fields, since the fields of tuples in triggers have no names.
local function numbers(space, fields)
    local list = {}
    for i, field in ipairs(fields) do
        list[i] = field
        for n, f in ipairs(box.space[space]:format()) do
            if f.name == field then list[i] = n end
        end
        if type(list[i]) ~= 'number' then fail(('space %s has no field %s'):format(space, tostring(field))) end
    end
    return list
end

if not pcall(function() return ffi.C.box_tuple_field end) then
    ffi.cdef'const char *box_tuple_field(struct tuple *tuple, uint32_t field);'
end

-- is_binary reads the type from the tuple's bytes. Lua has one type for strings and binaries, and would
-- write a binary back as a string.
local function is_binary(tuple, field)
    local lead = ffi.cast('const uint8_t *', ffi.C.box_tuple_field(tuple, field - 1))[0]
    return lead >= 0xc4 and lead <= 0xc6
end

--- trigger: a before_replace trigger that seals fields (by name or number). Envelopes that a
-- gateway or a packer has made stay unchanged, and so do binaries.
function M.trigger(fields, o)
    M.seal('', o) -- fails at once if the options are wrong
    local version, list
    return function(_, new, space)
        if new == nil then return new end
        local now = box.internal.schema_version()
        if now ~= version then version, list = now, numbers(space, fields) end
        for _, field in ipairs(list) do
            local value = new[field]
            if type(value) == 'string' and not is_binary(new, field) and not well_formed(value) then
                local sealed = M.seal(value, o)
                if sealed ~= value then new = new:update{{'=', field, sealed}} end
            end
        end
        return new
    end
end

return M
