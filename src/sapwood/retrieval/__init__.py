"""Retrieval: words, an inverted index, vectors and their fusion, for tools, memory and documents alike.

Laws: nothing here does I/O beyond reading a file that it is handed, and nothing knows a clock, chance or a thread;
numpy and the bundled vectors are imported on first use.
"""
