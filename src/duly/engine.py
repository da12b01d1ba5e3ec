"""`Duly`: the application together with the worker that runs it.

The worker is loaded when the first is made: a web application that only asks for work never needs it, and
it is half of the package.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from typing import TYPE_CHECKING, Any

from duly.app import App

if TYPE_CHECKING:
    from duly.worker import Worker


class Duly(App):
    """A background-work engine: tasks, schedules, the store they live in, and workers.

    app = Duly()          # DULY_URL, else sqlite:///duly.db; or a URL: postgresql://…, redis://…, memory://
    """

    def worker(self, **options: Any) -> Worker:
        """A worker for this process: `async with app.worker(): …` serves on the caller's loop."""
        from duly.worker import Worker

        return Worker(self, **options)

    def run(self, *, burst: bool = False, **options: Any) -> None:
        """Serve in this process until stopped; with burst=True until there is nothing to do."""
        asyncio.run(serve(self.worker(burst=burst, **options)))


async def serve(worker: Worker) -> None:
    """Serve with SIGTERM and SIGINT as an orderly stop; a second one hands running work back at once."""
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGTERM, signal.SIGINT) if threading.current_thread() is threading.main_thread() else ()
    for number in numbers:
        loop.add_signal_handler(number, worker.stop)
    try:
        await worker.serve()
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
