"""The executable specification of a store: one lock, plain dictionaries."""

from duly.stores.memory.store import MemoryStore

__all__ = ["MemoryStore"]
