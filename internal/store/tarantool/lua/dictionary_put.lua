-- cinch_dictionary_put(content, restore): keeps a dictionary, for ever. It runs as its owner, so that who may
-- call it can add dictionaries and change none. The answer is its number; 0 if it was forgotten, and restore
-- is not set.
local function main(content, restore)
    if type(content) == 'cdata' then content = tostring(content) end
    if #content < 16 or #content > 512 * 1024 then error('cinch: a dictionary has 16 bytes to 512 KiB', 0) end
    local hash = require('digest').sha256_hex(content)
    local number = tonumber(hash:sub(1, 8), 16)
    if number == 0 then error('cinch: the number of this dictionary would be 0', 0) end
    local space = box.space.cinch_dictionaries
    local there = space:get(number)
    local forgotten = there ~= nil and there[4] == 'forgotten'
    if forgotten and not restore then return 0 end
    if there == nil or forgotten then
        space:replace{number, hash, content, 'live', math.floor(require('clock').time())}
    elseif there[2] ~= hash or there[3] ~= content then
        error(('cinch: another dictionary has the number %08x'):format(number), 0)
    end
    return number
end

return main(...)
