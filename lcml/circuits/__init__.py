"""Structure: vtrees, circuits over them, splits, and what of an example a circuit reads. Frozen arrays, no data."""
