"""Who performs I/O for the loop: this thread, or asyncio."""
