"""The biomedical plugin: what queries, names and structures mean in medicine and pharmacology."""
