-- cinch_update(space, index, key, expected, operations, tuple, magic): update, or upsert where a tuple is
-- given, if what is stored is what is expected, in one call. All but the numbers are MessagePack in
-- strings, so that nothing loses its type on its way through Lua. Fields and offsets count from 1.
-- Where something else is stored, or nothing is expected, it answers false and what is stored, and
-- changes nothing; where nothing is stored there is nothing to expect. Where magic is given and nothing is
-- expected, any tuple will do in which these bytes are not. It runs with the caller's own rights.
local space, index, key, expected, operations, tuple, magic = ...
local msgpack = require('msgpack')
local ffi = require('ffi')

if not pcall(function() return ffi.C.box_tuple_new end) then
    ffi.cdef[[
        struct tuple;
        struct tuple_format;
        struct tuple_format *box_tuple_format_default(void);
        struct tuple *box_tuple_new(struct tuple_format *format, const char *data, const char *end);
    ]]
end

-- raw makes a tuple of an array's bytes. Nobody else's word is taken for what they are.
local function raw(bytes)
    if bytes == nil then return nil end
    local ok, value, after = pcall(msgpack.decode, bytes)
    local lead = ok and bytes:byte()
    if not ok or after ~= #bytes + 1 or not (lead >= 0x90 and lead <= 0x9f or lead == 0xdc or lead == 0xdd) then
        box.error{code = box.error.ILLEGAL_PARAMS, reason = 'cinch_update: not the MessagePack of an array'}
    end
    local data = ffi.cast('const char *', bytes)
    local made = ffi.C.box_tuple_new(ffi.C.box_tuple_format_default(), data, data + #bytes)
    if made == nil then box.error(box.error.MEMORY_ISSUE, #bytes, 'cinch_update', 'tuple') end
    return box.internal.tuple.bless(made)
end

key, operations, tuple = raw(key), raw(operations), raw(tuple)

-- stored is what there is to compare. A tuple whose key can't be one is upsert's to refuse.
local function stored()
    if tuple == nil then return box.internal.get(space, index, key) end
    local ok, found = pcall(box.internal.get, space, index, key)
    if ok then return found end
    if found.code ~= box.error.KEY_PART_TYPE and found.code ~= box.error.EXACT_MATCH then error(found) end
end

local function will_do(found)
    if expected ~= nil then return msgpack.encode(found) == expected end
    return magic ~= nil and not msgpack.encode(found):find(magic, 1, true)
end

local function step()
    local found = stored()
    if found ~= nil and not will_do(found) then return false, found end
    if tuple == nil then return true, box.internal.update(space, index, key, operations) end
    box.internal.upsert(space, tuple, operations)
    return true
end

-- In memtx nothing yields between reading and writing; in vinyl a conflict shows at the end, or before.
local function transaction()
    if box.is_in_txn() then return step() end
    box.begin()
    local ok, done, found = pcall(step)
    if ok then
        ok, done = pcall(function() box.commit() return done end)
        if ok then return done, found end
    end
    if box.is_in_txn() then box.rollback() end
    error(done)
end

local ok, done, found
for _ = 1, 10 do
    ok, done, found = pcall(transaction)
    if ok or type(done) ~= 'cdata' or done.code ~= box.error.TRANSACTION_CONFLICT or box.is_in_txn() then break end
end
if not ok then error(done) end
if not done then return false, found end
if found ~= nil then return found end
