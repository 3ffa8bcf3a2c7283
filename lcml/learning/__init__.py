"""Learning: fit the weights, score splits, grow. Sums over examples; no input or output."""
