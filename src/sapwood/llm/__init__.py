"""Providers of models: pure codecs, one transport, retries as a rule."""
