"""A worker: claim, run, settle, renew, stop."""

from duly.worker.worker import Worker

__all__ = ["Worker"]
