-- cinch_dictionary_state(number, state): live, retired or archived. All of them open values.
local function main(number, state)
    if state ~= 'live' and state ~= 'retired' and state ~= 'archived' then error('cinch: no such state', 0) end
    return box.space.cinch_dictionaries:update(number, {{'=', 4, state}}) ~= nil
end

return main(...)
