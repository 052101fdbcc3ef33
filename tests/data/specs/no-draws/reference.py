def f(x, y=None):
    return x
