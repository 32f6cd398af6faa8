"""Pure data and pure functions: no I/O, no clock, no randomness. Every protocol lives here."""
