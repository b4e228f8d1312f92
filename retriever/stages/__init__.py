"""The stages, one a file, each a pure function over a whole batch of queries."""
