"""Passes: probabilities up, flows down, and the features of a data set."""
