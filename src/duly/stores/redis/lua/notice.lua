-- notice: what hangs at the door while everything is being moved. [[stage, move, other, cursor]] or []

return house.shown()
