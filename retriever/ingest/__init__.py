"""Reading documents, cutting them into chunks and building an index."""
