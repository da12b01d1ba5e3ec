"""Moving house: everything one store holds, carried to another, nothing lost and nothing twice.

The source is sealed and drained, then stands still while its jobs are copied to a target that lends
nothing. The source alone decides that the move is done; whatever dies on the way, saying it again goes on.
"""

from duly.move.audit import Difference, Inventory, compared, taken_stock
from duly.move.mover import Moved, Mover, MoveRefused, undo

__all__ = ["Difference", "Inventory", "MoveRefused", "Moved", "Mover", "compared", "taken_stock", "undo"]
