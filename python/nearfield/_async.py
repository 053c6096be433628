"""Searches that do not block an event loop."""

import asyncio
from typing import Any

from nearfield._native import Index, _Cancel
from nearfield._types import Neighbors


async def search(index: Index, queries: Any, arguments: tuple[Any, ...], **options: Any) -> Neighbors:
    """Searches in a thread of the loop's executor. When the task is cancelled, the search ends."""
    cancel = _Cancel()
    try:
        # A class of the caller's may have a `search` of its own, without the flag.
        return await asyncio.to_thread(Index.search, index, queries, *arguments, **{**options, "_cancel": cancel})
    except asyncio.CancelledError:
        cancel.cancel()
        raise
