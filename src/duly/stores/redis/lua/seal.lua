-- seal: from now on producers are sent elsewhere and nothing is lent; a notice that hangs already stays.
-- [[stage, move, other, cursor]]

if not house.stage then
    house.put_up("sealed", given.move, given.other)
end
return house.shown()
