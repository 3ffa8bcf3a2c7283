"""Inputs: from a raw example to the probabilities of a circuit's variables."""
