"""Text to vectors: the models, the sets they ship in, and the cache of what they computed."""
