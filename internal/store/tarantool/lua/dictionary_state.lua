-- cinch_dictionary_state(number, state): live, retired or archived. All of them open values. The answer is
-- whether there is such a dictionary: one that was forgotten has left only a mark.
local function main(number, state)
    if state ~= 'live' and state ~= 'retired' and state ~= 'archived' then error('cinch: no such state', 0) end
    local there = box.space.cinch_dictionaries:get(number)
    if there == nil or there[4] == 'forgotten' then return false end
    box.space.cinch_dictionaries:update(number, {{'=', 4, state}})
    return true
end

return main(...)
