"""Searches that do not block an event loop."""

import asyncio
from typing import Any

from nearfield._native import Index, MultiVector, _Cancel


async def search(index: Index | MultiVector, queries: Any, arguments: tuple[Any, ...], **options: Any) -> Any:
    """Searches in a thread of the loop's executor. When the task is cancelled, the search ends."""
    cancel = _Cancel()
    try:
        # A class of the caller's may have a `search` of its own, without the flag.
        base: Any = MultiVector if isinstance(index, MultiVector) else Index
        return await asyncio.to_thread(base.search, index, queries, *arguments, **{**options, "_cancel": cancel})
    except asyncio.CancelledError:
        cancel.cancel()
        raise
