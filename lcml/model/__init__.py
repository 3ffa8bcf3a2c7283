"""Models: circuits with weights, what they predict, and how good that is."""
