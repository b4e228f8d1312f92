"""Run a retriever on a gold set: evaluate, track, compare."""
