"""Explanations: conditions in words, and what each adds to a logit."""
