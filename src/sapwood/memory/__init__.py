"""Long-term memory, independent of any store: recall before a turn, remember after it."""
