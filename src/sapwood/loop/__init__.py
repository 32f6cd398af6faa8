"""The one loop: decide, perform, fold, repeat."""
