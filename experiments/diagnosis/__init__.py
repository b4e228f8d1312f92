"""Why each query fails: evidence, the cause that may be behind it, and what trying it shows."""
