"""A reference without the function that the spec names."""


def soft_max(x):
    return x
