"""One searchable index: the chunk table, vectors, the lexical index and the manifest."""
