"""A model and what it made of some examples as one page, and an explanation as a picture."""
