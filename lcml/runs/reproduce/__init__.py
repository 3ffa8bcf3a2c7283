"""The experiments of Liang & Van den Broeck, *Learning Logistic Circuits*, AAAI 2019, run again beside its claims.

Test images are used for nothing but the final accuracy of each row.
"""
