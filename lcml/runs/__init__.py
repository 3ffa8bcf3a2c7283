"""Training runs: from options to a trained, saved and recorded model."""
