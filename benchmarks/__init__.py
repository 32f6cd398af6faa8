"""Figures of speed and size, measured on CPU time, ours beside a peer's in the same run."""
