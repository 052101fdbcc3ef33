"""A baseline."""


def softmax(x, y):
    y.copy_(x)
