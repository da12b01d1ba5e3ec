"""Redis and Valkey: operations are Lua scripts, the server's clock is the store's clock."""

from duly.stores.redis.store import RedisStore

__all__ = ["RedisStore"]
