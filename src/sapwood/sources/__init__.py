"""One file for each kind of context; none imports another."""
